"""Copy the engine's source once per content, so that it cannot change during a build.

`sources/<content>/` in the build cache holds all files that a build can read and no others: files that the
build id leaves out (tests, documentation) are not there. A build tree has a private copy that is updated file
by file: a file with the same content keeps its time stamp, so that another revision in the same tree compiles
only what differs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.cache import note_use
from perfrunner.build.identity import content_hash, tree_files
from perfrunner.errors import BuildError

_NAME_LENGTH = 16


@dataclass(frozen=True)
class Snapshot:
    """A read-only copy in the build cache. `sha256` is over the names and contents of its files."""

    path: Path
    sha256: str


def take_snapshot(source_dir: Path, cache_dir: Path, without: Sequence[str] = ()) -> Snapshot:
    """Copy the source without the files that `without` names, or find an existing copy.

    Raises BuildError if it changes during the copy or holds no engine.
    """
    sha256 = content_hash(source_dir, without)
    existing = find_snapshot(cache_dir, sha256)
    if existing is not None:
        return existing
    place = snapshot_path(cache_dir, sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        mirror(source_dir, staging, without)
        if content_hash(staging) != sha256:
            raise BuildError(
                f"{source_dir} changed while it was copied", hint="run the command again"
            )
        staging.chmod(0o755)
        _move_into_place(staging, place, sha256)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Snapshot(place, sha256)


def find_snapshot(cache_dir: Path, sha256: str) -> Snapshot | None:
    """Return the copy of this content, if the cache has a complete one."""
    place = snapshot_path(cache_dir, sha256)
    if not _holds(place, sha256):
        return None
    note_use(place)
    return Snapshot(place, sha256)


def snapshot_path(cache_dir: Path, sha256: str) -> Path:
    """Return the path of the copy of this content."""
    return cache_dir / "sources" / sha256[:_NAME_LENGTH]


def mirror(source_dir: Path, target: Path, without: Sequence[str] = ()) -> None:
    """Make `target` hold exactly the files that builds of `source_dir` read. Unchanged files are not touched."""
    wanted: set[Path] = set()
    for path in tree_files(source_dir, without):
        name = path.relative_to(source_dir)
        wanted.add(name)
        for parent in name.parents[:-1]:
            if (target / parent).is_file():
                (target / parent).unlink()  # it became a directory
        _bring(path, target / name)
    for path in sorted(target.rglob("*"), reverse=True):
        name = path.relative_to(target)
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif name not in wanted:
            path.unlink()


def _bring(path: Path, target: Path) -> None:
    data, mode = path.read_bytes(), path.stat().st_mode & 0o777
    if target.is_dir():
        shutil.rmtree(target)
    elif target.is_file() and target.read_bytes() == data:
        if target.stat().st_mode & 0o777 != mode:
            target.chmod(mode)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(
        ".perfrunner.new"
    )  # the file's own name may be as long as names can be
    aside.write_bytes(data)
    aside.chmod(mode)
    aside.replace(target)


def _holds(place: Path, sha256: str) -> bool:
    try:
        return content_hash(place) == sha256
    except BuildError:
        return False


def _move_into_place(staging: Path, place: Path, sha256: str) -> None:
    """Rename a finished copy to its path. If another process made it first, that one stays; a damaged one does not."""
    if place.exists() and not _holds(place, sha256):
        shutil.rmtree(place)
    try:
        staging.rename(place)
    except OSError:
        if not _holds(place, sha256):
            raise
