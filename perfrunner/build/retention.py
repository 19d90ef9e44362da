"""Which artifacts of the cache were used last, and how the others go: with their links and objects.

The directory of an artifact, and of a copy of a source, has the time of its last use (one that was found in the cache
is used, too).
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

# A run that was begun with a tree which has changed since needs its copy to be gone on with.
SOURCE_STAYS_S = 30 * 86400.0


@dataclass(frozen=True)
class Kept:
    """An artifact somewhere: `used_at` in seconds since 1970."""

    build_id: str
    used_at: float
    bytes: int


def note_use(directory: Path) -> None:
    """Of an artifact or a source, now. A cache that cannot be written to is no reason to stop."""
    with contextlib.suppress(OSError):
        os.utime(directory)


def artifacts_in(cache_dir: Path) -> list[Kept]:
    """All whole ones; what a build under way is making has a name with a dot."""
    directory = cache_dir / "artifacts"
    if not directory.is_dir():
        return []
    return [
        Kept(path.name, path.stat().st_mtime, tree_bytes(path))
        for path in directory.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    ]


def beyond(artifacts: Iterable[Kept], keep: int) -> list[Kept]:
    """All but the `keep` that were used last, the oldest first."""
    newest_first = sorted(artifacts, key=lambda kept: kept.used_at, reverse=True)
    return newest_first[keep:][::-1]


def unused_sources(cache_dir: Path) -> list[Path]:
    """Copies of sources that nothing has used for SOURCE_STAYS_S, and what an export that was killed left."""
    before = time.time() - SOURCE_STAYS_S
    found = []
    for path in (cache_dir / "sources").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # an export that ends meanwhile
            if path.stat().st_mtime < before:
                found.append(path)
    return sorted(found)


def forget(cache_dir: Path, build_ids: Iterable[str]) -> None:
    """Remove them, and the objects that no artifact left needs. Nobody may build meanwhile. OSError."""
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
    """Of the files in it; what goes meanwhile does not count."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            total += 0 if path.is_dir() else status.st_size
    return total
