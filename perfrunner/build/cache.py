"""The build cache's directory: ours or not, what in it can be used, how something complete appears in it.

It holds `sources/` (see snapshot.py), `artifacts/<build_id>/`, `links/<build_id>.json` and `objects/` (see links.py),
`inputs/<recipe>.json` (see inputs.py), `trees/<key>/` (see tree.py), `allocators/<inputs>/` (cargo's directories)
and `logs/<recipe>.log`. Runs under way share the lock of `in-use.lock`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from perfrunner.build.manifest import damage
from perfrunner.build.output import Progress
from perfrunner.errors import BuildError

CACHE_TAG = "CACHEDIR.TAG"
IN_USE_LOCK = "in-use.lock"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# perfrunner's build cache (https://bford.info/cachedir): `perfrunner clean` removes all of it.\n"
)


def own_cache(cache_dir: Path) -> None:
    """Create and mark the cache. A directory with other things in it is not taken: clean would remove them."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        if (cache_dir / CACHE_TAG).exists():
            return
        if any(cache_dir.iterdir()) and not (cache_dir / CACHE_TAG).exists():
            raise BuildError(
                f"{cache_dir} holds other things (it has no {CACHE_TAG})",
                hint="give the build cache a directory of its own with --cache",
            )
        with tempfile.TemporaryDirectory(dir=cache_dir.parent) as aside:
            tag = Path(aside) / CACHE_TAG
            tag.write_text(_TAG_TEXT, encoding="ascii")
            tag.replace(cache_dir / CACHE_TAG)  # complete at once, whoever else starts now
    except OSError as error:
        raise BuildError(
            f"the build cache {cache_dir} cannot be used: {error.strerror}", space_hint(error)
        ) from error


@contextlib.contextmanager
def in_use(cache_dir: Path) -> Iterator[None]:
    """While a run goes on: each block is linked anew from the cache. Any number of runs share it; no `clean` begins.

    A cache that cannot be written to cannot be cleaned by this user either, and needs no lock.
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
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # the cache was removed while we waited
        own_cache(cache_dir)


def usable(path: Path, build_id: str, tell: Progress) -> bool:
    """Whether the artifact is there and whole; `tell` hears of one that is damaged."""
    if not path.exists():
        return False
    wrong = damage(path, build_id)
    if wrong is not None:
        tell(f"the cached artifact {build_id} is damaged ({wrong}): building it again")
    return wrong is None


def move_into_place(staging: Path, path: Path, build_id: str) -> None:
    """Of rivals that made the same artifact the first one stays; a damaged one does not."""
    if path.exists() and damage(path, build_id) is not None:
        shutil.rmtree(path)
    try:
        staging.rename(path)
    except OSError:
        if damage(path, build_id) is not None:
            raise


def space_hint(error: OSError) -> str | None:
    """What to do about a full disk; None for another error."""
    return (
        "free some disk space; `perfrunner clean` removes old builds" if error.errno == 28 else None
    )
