"""Manage the directory of the build cache: its ownership, its usable entries, their creation and removal.

It holds `sources/` and `trees/<key>/` (see tree.py), `artifacts/<build_id>/`, `inputs/<recipe>.json`,
`links/<build_id>.json` and `objects/` (see ninja.py), `allocators/<inputs>/` (cargo's directories) and
`logs/<recipe>.log`. Active runs share the lock of `in-use.lock`.

The modification time of an artifact's or a source copy's directory is the time of its last use, including uses from
the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.artifact import damage
from perfrunner.build.ninja import objects_of
from perfrunner.build.tools import Progress
from perfrunner.errors import EXIT_USAGE, BuildError, is_full
from perfrunner.paths import lock

CACHE_TAG = "CACHEDIR.TAG"
IN_USE_LOCK = "in-use.lock"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# perfrunner's build cache (https://bford.info/cachedir): `perfrunner clean` removes all of it.\n"
)


class UnusableCacheError(BuildError):
    """The directory cannot be a build cache; another one has to be named."""

    exit_code = EXIT_USAGE


def own_cache(cache_dir: Path) -> None:
    """Create and mark the cache.

    A directory with other contents is refused, because `clean` would remove them.
    """
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        if (cache_dir / CACHE_TAG).exists():
            return
        tags = f"{CACHE_TAG}*"  # one that another process writes is none yet
        others = [path for path in cache_dir.iterdir() if not path.match(tags)]
        if others and not (cache_dir / CACHE_TAG).exists():
            raise UnusableCacheError(
                f"{cache_dir} is not empty and is not a build cache (it has no {CACHE_TAG})",
                hint="name an empty directory for the build cache with --cache",
            )
        # Atomic, so that another process that starts now never sees half of it. The parent may be read-only.
        fd, name = tempfile.mkstemp(prefix=f"{CACHE_TAG}.", dir=cache_dir)
        with os.fdopen(fd, "w", encoding="ascii") as tag:
            tag.write(_TAG_TEXT)
            os.fchmod(fd, 0o644)
        Path(name).replace(cache_dir / CACHE_TAG)
    except OSError as error:
        message = f"cannot use the build cache {cache_dir}: {error.strerror}"
        if hint := space_hint(error):
            raise BuildError(message, hint, of_machine=True) from error
        raise UnusableCacheError(
            message, "name a writable directory with --cache DIR or PERFRUNNER_CACHE"
        ) from error


@contextlib.contextmanager
def in_use(cache_dir: Path) -> Iterator[None]:
    """Hold off `clean` during a run, because each block is linked again from the cache. Runs share the lock.

    A cache that this user cannot write to cannot be cleaned by this user either, and needs no lock.
    """
    own_cache(cache_dir)
    try:
        fd = _shared_lock(cache_dir)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.close(fd)


def _shared_lock(cache_dir: Path) -> int:
    while True:
        fd = os.open(
            cache_dir / IN_USE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        lock(fd, cache_dir, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # the cache was removed while we waited
        own_cache(cache_dir)


@contextlib.contextmanager
def locked(path: Path, progress: Progress) -> Iterator[int]:
    """Hold a lock file, so that one process builds at a time; yield its descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not lock(fd, path):
            progress("waiting for another build in the same tree")
            lock(fd, path, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def usable(path: Path, build_id: str, tell: Progress) -> bool:
    """Tell whether the artifact exists and is undamaged; a damaged one is reported to `tell`."""
    if not path.exists():
        return False
    wrong = damage(path, build_id)
    if wrong is not None:
        tell(f"the cached artifact {build_id} is damaged ({wrong}): building it again")
    return wrong is None


def move_into_place(staging: Path, path: Path, build_id: str) -> None:
    """Rename a finished artifact to its path. If another process made the same one first, that one stays.

    A damaged artifact is replaced.
    """
    if path.exists() and damage(path, build_id) is not None:
        shutil.rmtree(path)
    try:
        staging.rename(path)
    except OSError:
        if damage(path, build_id) is not None:
            raise


def space_hint(error: OSError) -> str | None:
    """Return a hint for a full disk; None for another error."""
    return "free some disk space; `perfrunner clean` removes old builds" if is_full(error) else None


# A run needs its copy to be resumed after the working tree has changed.
SOURCE_STAYS_S = 30 * 86400.0


@dataclass(frozen=True)
class Kept:
    """An artifact in a cache. `used_at` is in seconds since 1970."""

    build_id: str
    used_at: float
    bytes: int


def note_use(directory: Path) -> None:
    """Record the current time as the last use. A cache that cannot be written to is not an error."""
    with contextlib.suppress(OSError):
        os.utime(directory)


def artifacts_in(cache_dir: Path) -> list[Kept]:
    """Return all complete artifacts; one that is being built has a name that begins with a dot."""
    directory = cache_dir / "artifacts"
    if not directory.is_dir():
        return []
    return [
        Kept(path.name, path.stat().st_mtime, tree_bytes(path))
        for path in directory.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    ]


def beyond(artifacts: Iterable[Kept], keep: int) -> list[Kept]:
    """Return all artifacts except the `keep` that were used last, the oldest first."""
    newest_first = sorted(artifacts, key=lambda kept: kept.used_at, reverse=True)
    return newest_first[keep:][::-1]


def unused_sources(cache_dir: Path) -> list[Path]:
    """Return source copies unused for SOURCE_STAYS_S, including leftovers of killed exports."""
    before = time.time() - SOURCE_STAYS_S
    unused = []
    for path in (cache_dir / "sources").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # an export may end now
            if path.stat().st_mtime < before:
                unused.append(path)
    return sorted(unused)


def forget(cache_dir: Path, build_ids: Iterable[str]) -> None:
    """Remove artifacts, and the objects that no remaining artifact needs. Raises OSError.

    Nobody may build at the same time.
    """
    for build_id in build_ids:
        (cache_dir / "links" / f"{build_id}.json").unlink(missing_ok=True)
        shutil.rmtree(cache_dir / "artifacts" / build_id)
    needed = {
        path
        for links in (cache_dir / "links").glob("*.json")
        for path in objects_of(cache_dir, links.stem)
    }
    for path in (cache_dir / "objects").glob("*"):
        if path not in needed:
            path.unlink()


def tree_bytes(directory: Path) -> int:
    """Return the size of the files in a directory; files that disappear during the call do not count."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            total += 0 if path.is_dir() else status.st_size
    return total
