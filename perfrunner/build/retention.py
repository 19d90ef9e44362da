"""Track when artifacts and sources of the cache were last used, and remove old ones with their links and objects.

The modification time of an artifact's or a source copy's directory is the time of its last use, including
uses from the cache.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.links import objects_of

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
