"""Move one run between stores: an archive with its records and raw files, each file named by its SHA-256.

An archive is a ZIP file: `run.json` (the records, and a list of the files) and `files/RAW_DIR/NAME`. It may
come from a stranger. Therefore an import reads only members that the list names, writes them as new regular
files below a new directory of the run, checks size and SHA-256 of each, bounds what it unpacks, and never
replaces anything. The run's spec is data: an imported run cannot be resumed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perfrunner import __version__
from perfrunner.errors import PerfrunnerError, StoreError, TrialError, UsageError
from perfrunner.paths import sha256_of
from perfrunner.results import legacy
from perfrunner.results.files import CHUNK, new_file, raw_files, sync_path
from perfrunner.results.records import (
    IMPORTED,
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    TrialRecord,
)
from perfrunner.results.store import AlreadyStoredError, ResultStore
from perfrunner.text import all_harmless

_Record = TypeVar("_Record", ExperimentRecord, BuildRecord, TrialRecord)

FORMAT = 1
MANIFEST = "run.json"
LARGEST_MANIFEST = 256 << 20  # bytes; 10 000 trials take about 30 MiB
LARGEST_TOTAL = 16 << 30  # bytes of all raw files
MOST_FILES = 500_000
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-\d{8}(-\d{6}(-\d+)?)?")
_PART = re.compile(r"[^/\\\x00-\x1f\x7f]{1,200}")  # of a path
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member, so that the same run gives the same archive
_UNPACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArchivedFile(BaseModel):
    """An entry of the list of files: a raw file of a trial."""

    model_config = ConfigDict(extra="forbid")
    raw_dir: str
    name: str
    sha256: str
    bytes: int = Field(ge=0)

    @property
    def member(self) -> str:
        """The name in the ZIP file."""
        return f"files/{self.raw_dir}/{self.name}"


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    format: Literal[1]
    tool_version: str
    experiment: ExperimentRecord
    builds: tuple[BuildRecord, ...]
    trials: tuple[TrialRecord, ...]
    files: tuple[ArchivedFile, ...] = Field(max_length=MOST_FILES)


@dataclass(frozen=True)
class Moved:
    """The run that was written to an archive or read from one. `problems` names files that were left out."""

    experiment: ExperimentRecord
    trials: int
    files: int
    problems: tuple[str, ...] = ()


def write_archive(store: ResultStore, experiment_id: str, path: Path) -> Moved:
    """Write a run to an archive, replacing an older file. Damaged and missing raw files are left out."""
    data = store.load(experiment_id)
    problems: list[str] = []
    files: list[ArchivedFile] = []
    with new_file(path) as out, zipfile.ZipFile(out, "w", allowZip64=True) as archive:
        for entry, source in _files_of(data, store.raw_digests(experiment_id), problems):
            with source.open("rb") as content, archive.open(_member(entry.member), "w") as target:
                shutil.copyfileobj(content, target, CHUNK)
            files.append(entry)
        archive.writestr(_member(MANIFEST), json.dumps(_document(data, files), allow_nan=False))
    return Moved(data.experiment, len(data.trials), len(files), tuple(problems))


def import_archive(
    store: ResultStore, path: Path, read: Callable[[ExperimentData], object] = lambda _: None
) -> Moved:
    """Store the run of an archive. Raises UsageError if it is stored already, StoreError for a bad archive.

    `read` reads the records as later commands will: what it cannot read is refused, since it would also end the history
    of the runs that are here.
    """
    if store.directory is None:
        raise UsageError("an import needs a results directory", "name it with --out DIR")
    store.directory.mkdir(parents=True, exist_ok=True)
    with _opened(path) as archive:
        manifest = _manifest_of(archive, path)
        run = manifest.experiment.id
        if any(summary.experiment.id == run for summary in store.list()):
            raise UsageError(f"{run} is stored already", f"show it with: perfrunner report {run}")
        target = store.directory / run
        if os.path.lexists(target):
            raise UsageError(
                f"{target} exists, but no run {run} is stored",
                "move it away; an import never overwrites files",
            )
        _check_room(store.directory, sum(entry.bytes for entry in manifest.files))
        with tempfile.TemporaryDirectory(prefix=".import-", dir=store.directory) as place:
            unpacked = Path(place) / run
            unpacked.mkdir()
            for entry in manifest.files:
                _unpack(archive, entry, Path(place))
            _sync(unpacked)
            unpacked.rename(target)
    try:
        sync_path(store.directory)
        _store(store, manifest, path, read)
    except BaseException as error:
        # If the server went away, the run may be stored; then its files stay.
        if isinstance(error, AlreadyStoredError) or not _may_be_stored(store, run):
            shutil.rmtree(target, ignore_errors=True)
        raise
    return Moved(manifest.experiment, len(manifest.trials), len(manifest.files))


def _files_of(
    data: ExperimentData, recorded: Mapping[str, Mapping[str, str]], problems: list[str]
) -> Iterator[tuple[ArchivedFile, Path]]:
    """Yield the intact raw files of trials."""
    for raw_dir in sorted({t.raw_dir for t in data.trials if t.raw_dir} | set(recorded)):
        digests = recorded.get(raw_dir, {})
        try:
            present = raw_files(data, raw_dir)
        except (TrialError, OSError) as error:
            problems.append(f"{raw_dir}: {error}")
            continue
        problems += [f"{raw_dir}/{name}: missing" for name in digests.keys() - present.keys()]
        for name, path in sorted(present.items()):
            if not path.is_file() or path.is_symlink():
                continue
            sha256 = sha256_of(path)
            if digests.get(name, sha256) != sha256:
                problems.append(f"{raw_dir}/{name}: damaged: it does not match its recorded digest")
                continue
            entry = ArchivedFile(
                raw_dir=raw_dir, name=name, sha256=sha256, bytes=path.stat().st_size
            )
            yield entry, path


def _document(data: ExperimentData, files: list[ArchivedFile]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tool_version": __version__,
        "experiment": _plain(data.experiment),
        "builds": [_plain(build) for build in data.builds],
        "trials": [_plain(trial) for trial in data.trials],
        "files": [entry.model_dump() for entry in files],
    }


def _plain(record: ExperimentRecord | BuildRecord | TrialRecord) -> dict[str, Any]:
    fields = dataclasses.asdict(record)
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in fields.items()}


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; convert the errors of reading it to StoreError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        where = error.filename or path
        raise StoreError(f"cannot import {path}: {where}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise StoreError(f"{path}: not an archive of perfrunner, or damaged: {error}") from error


def _manifest_of(archive: zipfile.ZipFile, path: Path) -> _Manifest:
    """Read and check the records. Raises StoreError."""
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        raise StoreError(f"{path}: not an archive of perfrunner: it has no {MANIFEST}") from None
    with _member_of(archive, info, LARGEST_MANIFEST) as member:
        text = member.read(LARGEST_MANIFEST + 1)
    if len(text) > LARGEST_MANIFEST:
        raise StoreError(f"{path}: {MANIFEST} is larger than {LARGEST_MANIFEST >> 20} MiB")
    try:
        document = json.loads(text, parse_constant=_no_constant)
        written = document.get("format") if isinstance(document, dict) else None
        if isinstance(written, int) and written > FORMAT:
            raise StoreError(
                f"{path}: format {written}, this perfrunner reads {FORMAT}",
                "it was written by a newer perfrunner: upgrade this one",
            )
        manifest = _Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = all_harmless(".".join(map(str, first["loc"])))
        raise StoreError(f"{path}: {MANIFEST}: {where}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: {MANIFEST}: not JSON ({error})") from None
    problem = next(_problems_of(manifest), None)
    if problem is not None:
        raise StoreError(f"{path}: {MANIFEST}: {problem}", "nothing was imported")
    return manifest


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _problems_of(manifest: _Manifest) -> Iterator[str]:
    """Yield why the records cannot be stored here."""
    run = manifest.experiment.id
    if len(run) > 120 or not _RUN_ID.fullmatch(run):
        yield f"{run!r} is not the id of a run"
    if manifest.experiment.created_at.tzinfo is None:
        yield "created_at has no time zone"
    if abs(manifest.experiment.seed) >= 2**63:
        yield "the seed is too large"
    names = [manifest.experiment.name, *(build.variant for build in manifest.builds)]
    for trial in manifest.trials:
        names += [trial.workload, trial.bucket, trial.variant, trial.build_id, *trial.metrics]
        if trial.started_at.tzinfo is None or trial.finished_at.tzinfo is None:
            yield f"times of block {trial.block} have no time zone"
        if max(map(abs, (trial.block, trial.attempt, trial.position, trial.group))) >= 2**31:
            yield f"block {trial.block}: a number is too large"
        if trial.raw_dir and not _is_own(trial.raw_dir, run):
            yield f"{trial.raw_dir!r} is outside of the run's directory"
    for name in names:
        if len(name) > 200 or not name.isprintable():
            yield f"{name[:200]!r} is not a name"
    seen: set[str] = set()
    for entry in manifest.files:
        if not _is_own(entry.raw_dir, run) or not _is_part(entry.name):
            yield f"{entry.raw_dir + '/' + entry.name!r} is outside of the run's directory"
        if not _SHA256.fullmatch(entry.sha256):
            yield f"{entry.member}: {entry.sha256[:80]!r} is not a SHA-256"
        if entry.member in seen:
            yield f"{entry.member} is listed twice"
        seen.add(entry.member)
    if (total := sum(entry.bytes for entry in manifest.files)) > LARGEST_TOTAL:
        yield f"{total >> 30} GiB of raw files are more than {LARGEST_TOTAL >> 30} GiB"


def _is_own(raw_dir: str, run: str) -> bool:
    """Return whether a path is that of a directory below the run's own, written in its only way."""
    first, *rest = raw_dir.split("/")
    return first == run and bool(rest) and len(rest) <= 16 and all(map(_is_part, rest))


def _is_part(name: str) -> bool:
    return name not in (".", "..") and _PART.fullmatch(name) is not None


def _check_room(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise StoreError(
            f"the raw files need {needed >> 20} MiB, and {directory} has {free >> 20} MiB free",
            "free some space, or name another directory with --out DIR",
        )


@contextmanager
def _member_of(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, largest: int
) -> Iterator[IO[bytes]]:
    if info.file_size > largest or info.compress_type not in _UNPACKED:
        raise zipfile.BadZipFile(f"{info.filename}: unexpected size or compression")
    with archive.open(info) as member:
        yield member


def _unpack(archive: zipfile.ZipFile, entry: ArchivedFile, place: Path) -> None:
    """Write one raw file. At most the listed size is read, whatever the ZIP file says of it."""
    try:
        info = archive.getinfo(entry.member)
    except KeyError:
        raise zipfile.BadZipFile(f"{entry.member} is missing") from None
    path = place / entry.raw_dir / entry.name
    path.parent.mkdir(parents=True, exist_ok=True)
    sha256, left = hashlib.sha256(), entry.bytes
    with _member_of(archive, info, entry.bytes) as member, path.open("xb") as file:
        while left and (chunk := member.read(min(CHUNK, left))):
            sha256.update(chunk)
            file.write(chunk)
            left -= len(chunk)
        file.flush()
        os.fsync(file.fileno())
    if left or sha256.hexdigest() != entry.sha256:
        raise zipfile.BadZipFile(f"{entry.member} does not match its SHA-256")


def _sync(directory: Path) -> None:
    """Wait until the entries of all directories are on disk; the files are already."""
    for parent, _, _ in os.walk(directory):
        sync_path(Path(parent))


def _may_be_stored(store: ResultStore, run: str) -> bool:
    try:
        return any(summary.experiment.id == run for summary in store.list())
    except StoreError:
        return True


def _harmless(record: _Record) -> _Record:
    names = [entry.name for entry in dataclasses.fields(record)]
    return dataclasses.replace(record, **{n: all_harmless(getattr(record, n)) for n in names})


def _store(
    store: ResultStore, manifest: _Manifest, path: Path, read: Callable[[ExperimentData], object]
) -> None:
    """Store the records, and the digests of the raw files; either all or nothing."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    record = _harmless(manifest.experiment)
    facts = {**record.facts, IMPORTED: {"from": path.name, "at": now}}
    state = "interrupted" if record.state == "running" else record.state
    data = ExperimentData(
        experiment=dataclasses.replace(
            record, spec_json=legacy.current_spec(record.spec_json), facts=facts, state=state
        ),
        # The builds are not on this machine, and a path of another one means nothing here.
        builds=tuple(dataclasses.replace(_harmless(build), path="") for build in manifest.builds),
        trials=tuple(map(_harmless, manifest.trials)),
        directory=str(store.directory),
    )
    try:
        read(data)
    except PerfrunnerError:
        pass  # there is a reason why it has no report
    except Exception as error:
        raise StoreError(
            f"{path}: {MANIFEST}: the records cannot be read: {type(error).__name__}: {error}",
            "nothing was imported; the archive was changed, or is of another version of perfrunner",
        ) from error
    store.add(data)
    try:
        for raw_dir in sorted({entry.raw_dir for entry in manifest.files}):
            store.keep_raw(record.id, raw_dir, store.directory / raw_dir)  # type: ignore[operator]
    except BaseException:
        store.delete(record.id)
        raise
