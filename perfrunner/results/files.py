"""Keep raw files: by content in a directory that several groups share, and find and verify those of a trial.

In the shared directory each content is once, named by its SHA-256. A file appears under its name complete or not at
all, even if others write the same content at that moment. It is on disk when `keep` returns, before rows that refer to
it are stored.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from perfrunner.errors import StoreError, TrialError
from perfrunner.paths import sha256_of

if TYPE_CHECKING:
    from perfrunner.results.records import ExperimentData


LOCK_FILE = "lock"  # of a results directory; its run holds it
CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Content:
    """The name, digest and size of a stored file."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Contents:
    """A directory of contents. It may be on a network file system, and is created when the first file is stored."""

    directory: Path

    def path(self, sha256: str) -> Path:
        """Return the path of a content, whether or not it exists.

        There is a directory for each first two digits, because a million files are too many for one
        directory. Raises StoreError if `sha256`, which others may have written to a shared store, is not a
        digest.
        """
        if not _SHA256.fullmatch(sha256):
            raise StoreError(
                f"{sha256!r} is not a SHA-256: the store's table raw_files was changed by another program"
            )
        return self.directory / sha256[:2] / sha256

    def has(self, content: Content) -> bool:
        """Return whether a file of the right size exists; `keep` also compares its content."""
        place = self.path(content.sha256)
        return place.is_file() and place.stat().st_size == content.bytes

    def keep(self, directory: Path) -> Sequence[Content]:
        """Store each file of a trial's directory. Raises StoreError if a file cannot be written."""
        try:
            return [self._keep(path) for path in sorted(directory.iterdir()) if path.is_file()]
        except OSError as error:
            raise StoreError(
                f"cannot store raw files in {self.directory}: {error.strerror or error}"
            ) from error

    def remove(self, digests: Iterable[str]) -> None:
        """Remove contents to which nothing refers. Raises StoreError if one cannot be removed."""
        for sha256 in digests:
            try:
                self.path(sha256).unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"cannot remove {self.path(sha256)}: {error.strerror}") from error

    def _keep(self, path: Path) -> Content:
        content = _describe(path)
        place = self.path(content.sha256)
        if self.has(content) and sha256_of(place) == content.sha256:
            sync_path(place.parent)  # another group that stored it may not have done so yet
        else:
            with path.open("rb") as source, _replacing(place) as target:
                shutil.copyfileobj(source, target, CHUNK)
        sync_path(self.directory)
        return content


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        sync_path(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a temporary file that replaces `path` when it is complete and on disk. Raises StoreError.

    A full disk or a power cut leaves the old file. A pipe or a device, such as /dev/stdout, is written to.
    """
    try:
        with path.open("wb") if _is_stream(path) else _replacing(path) as file:
            yield file
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def _is_stream(path: Path) -> bool:
    """Tell whether a path must not be replaced by a file: root could replace a device."""
    place = path.absolute()
    special = any(place.is_relative_to(top) for top in ("/dev", "/proc"))
    files = place.is_relative_to("/dev/shm")
    return (special and not files) or (path.exists() and not path.is_file())


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file completely or not at all, as `new_file` does; return its path."""
    with new_file(path) as file:
        file.write(content)
    return path


def in_use(directory: Path) -> bool:
    """Tell whether a run holds the lock of a results directory (experiment/outdir.py), or nobody can tell."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def describe(directory: Path) -> Sequence[Content]:
    """Return the files of a trial's directory; none without a directory. Raises StoreError if one cannot be read."""
    if not directory.is_dir():
        return []
    try:
        return [_describe(path) for path in sorted(directory.iterdir()) if path.is_file()]
    except OSError as error:
        raise StoreError(f"cannot read {directory}: {error.strerror or error}") from error


def _describe(path: Path) -> Content:
    return Content(path.name, sha256_of(path), path.stat().st_size)


def sync_path(path: Path) -> None:
    """Wait until a file's content, or a directory's entries, would survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_files(directory: Path) -> None:
    """Sync the files of a trial, its directory, and the entry of that directory. Raises StoreError on failure.

    A trial that failed before it had any file has no directory.
    """
    if not directory.is_dir():
        return
    try:
        for path in (*sorted(directory.iterdir()), directory, directory.parent):
            if path.is_file() or path.is_dir():
                sync_path(path)
    except OSError as error:
        raise StoreError(f"cannot sync {directory}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Verified:
    """The result of verifying raw files. Files are named by path below the results directory."""

    intact: int = 0
    damaged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()  # directories of trials without stored digests


def is_inside(raw_dir: str) -> bool:
    """Return whether a relative path from the store, which others may write to, stays below its base directory."""
    path = PurePosixPath(raw_dir)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in raw_dir


def raw_directory(data: ExperimentData, raw_dir: str) -> Path:
    """Return the directory that the run wrote. Raises TrialError if it is not on this machine."""
    if not is_inside(raw_dir):
        raise TrialError(f"refusing to read raw files outside the results directory: {raw_dir!r}")
    if data.directory is None:
        raise TrialError("the store is a remote database without raw files")
    return Path(data.directory) / raw_dir


def raw_files(data: ExperimentData, raw_dir: str) -> Mapping[str, Path]:
    """Return the files of a trial by name: from the run's own directory, or as stored by content.

    Raises TrialError or OSError if there are none, or if a content does not match its name.
    """
    contents = data.contents.get(raw_dir)
    if contents and (data.directory is None or not raw_directory(data, raw_dir).is_dir()):
        paths = {name: Path(path) for name, path in contents.items()}
        for name, path in paths.items():
            if sha256_of(path) != path.name:
                raise TrialError(
                    f"{name} is damaged: the content of {path} does not match its name"
                )
        return paths
    directory = raw_directory(data, raw_dir)
    if not directory.is_dir():
        raise TrialError("the directory does not exist")
    return {path.name: path for path in sorted(directory.iterdir())}


def verify_files(data: ExperimentData, recorded: Mapping[str, Mapping[str, str]]) -> Verified:
    """Compare the raw files of an experiment with the recorded digests, by `raw_dir` and name."""
    intact, damaged, missing = 0, [], []
    for raw_dir, digests in recorded.items():
        contents = data.contents.get(raw_dir, {})
        for name, sha256 in digests.items():
            where = f"{raw_dir}/{name}"
            places = [Path(contents[name])] if name in contents else []
            if data.directory is not None:
                places.insert(0, raw_directory(data, raw_dir) / Path(name).name)
            present = [path for path in places if path.is_file()]
            if not present:
                missing.append(where)
            elif sha256_of(present[0]) == sha256:
                intact += 1
            else:
                damaged.append(where)
    unrecorded = {trial.raw_dir for trial in data.trials if trial.raw_dir} - recorded.keys()
    return Verified(intact, tuple(damaged), tuple(missing), tuple(sorted(unrecorded)))
