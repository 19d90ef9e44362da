"""Keep CMake build trees between builds, so that little is compiled twice.

There is one tree for each build type and compiler, for sources of any directory or revision. It has a private
copy of the source, and is configured again for every variant: another ENGINE_ALLOCATOR
relinks, another build switch recompiles only files that include that switch's header, another revision only
files that differ. One build at a time uses a tree (an flock next to it); the allocators' own builds are
shared by all trees.

The source is copied once per content, so that it cannot change during a build: `sources/<content>/` in the build cache
holds all files that a build can read and no others (tests, documentation). The private copy of a tree is updated file
by file: a file with the same content keeps its time stamp, so that another revision in the same tree compiles only
what differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perfrunner.build.cache import locked, note_use
from perfrunner.build.identity import content_hash, tree_files
from perfrunner.build.tools import Progress, Toolchain, run_logged
from perfrunner.errors import BuildError

COMPONENT = "artifact"
_SCHEMA = 3  # raise it when the layout of a tree's directory changes


@dataclass(frozen=True)
class BuildPlan:
    """The input of CMake. `options` are cache variables (ENGINE_HT_STATS...), without the allocator.

    `programs` selects programs, if the source knows KV_PROGRAMS (empty: all). `cargo` is the version of the
    tool that fetches and builds the allocator; empty if none is needed. `jobs` compilers run at the same time.
    """

    source_dir: Path
    options: Mapping[str, str]
    allocator: str
    build_type: str
    toolchain: Toolchain
    cargo: str = ""
    programs: tuple[str, ...] = ()
    jobs: int = 1

    @property
    def tree_key(self) -> str:
        """The name of the tree: a digest of build type and compilers."""
        parts = [
            _SCHEMA,
            self.build_type,
            self.toolchain.cxx,
            self.toolchain.cc,
            self.toolchain.identity,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Tree:
    """A locked build tree: `source` is its copy of the engine's source, `build` is CMake's directory.

    `lock` is the descriptor of its lock. Every process that works in the tree inherits it: if perfrunner is
    killed, its compilers continue for a while, and nobody else may enter until the last of them has ended.
    """

    source: Path
    build: Path
    lock: int

    @property
    def inputs(self) -> Path:
        """The record of system files that the build read (see ninja.py)."""
        return self.build.with_name("inputs.json")


@contextlib.contextmanager
def locked_tree(cache_dir: Path, plan: BuildPlan, progress: Progress) -> Iterator[Tree]:
    """Lock the tree of a plan exclusively."""
    trees = cache_dir / "trees"
    trees.mkdir(parents=True, exist_ok=True)
    tree = trees / plan.tree_key
    with locked(tree.with_name(f"{tree.name}.lock"), progress) as fd:
        yield Tree(tree / "source", tree / "build", fd)


def build_and_install(
    tree: Tree,
    prefix: Path,
    plan: BuildPlan,
    *,
    allocator_cache: Path,
    log: IO[str],
    env: Mapping[str, str],
    progress: Progress,
) -> dict[str, float]:
    """Configure, build, and install the component `artifact` under `prefix`; return the seconds of each step."""
    seconds: dict[str, float] = {}
    steps = {
        "configure": configure_argv(tree, plan, allocator_cache),
        "build": [plan.toolchain.ninja, "-C", str(tree.build), f"-j{plan.jobs}"],
        "install": [
            plan.toolchain.cmake, "--install", str(tree.build), "--component", COMPONENT, "--prefix", str(prefix),
        ],
    }  # fmt: skip
    for step, argv in steps.items():
        began = time.monotonic()
        what = f"the engine's {step} step"
        run_logged(argv, what=what, log=log, env=env, progress=progress, inherited=(tree.lock,))
        seconds[step] = round(time.monotonic() - began, 3)
    if not any(prefix.glob("bin/*")):
        raise BuildError(
            f"the build installed no program (component {COMPONENT} of {plan.source_dir})"
        )
    return seconds


def configure_argv(tree: Tree, plan: BuildPlan, allocator_cache: Path) -> list[str]:
    """Return the configure command.

    -U forgets what an earlier configuration stored, so that an omitted switch has today's default.
    """
    defines = {
        "CMAKE_BUILD_TYPE": plan.build_type,
        "CMAKE_C_COMPILER": plan.toolchain.cc,
        "CMAKE_CXX_COMPILER": plan.toolchain.cxx,
        "CMAKE_MAKE_PROGRAM": plan.toolchain.ninja,
        # DT_RPATH, not DT_RUNPATH: the bundled libraries must also find each other.
        "CMAKE_EXE_LINKER_FLAGS": "-Wl,--disable-new-dtags",
        "KV_TESTS": "OFF",
        "KV_FUZZ": "OFF",
        "KV_SANITIZER": "none",
        "ENGINE_ALLOCATOR_CACHE": str(allocator_cache),
        "ENGINE_ALLOCATOR": plan.allocator,
        **({"KV_PROGRAMS": ";".join(plan.programs)} if plan.programs else {}),
        **plan.options,
    }
    return [
        plan.toolchain.cmake, "-S", str(tree.source), "-B", str(tree.build), "-G", "Ninja", "--no-warn-unused-cli",
        "-UENGINE_*", "-UKV_*", *(f"-D{name}={value}" for name, value in defines.items()),
    ]  # fmt: skip


def parallelism() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    # Not derived from the file's own name, which may be as long as names can be.
    aside = target.with_name(".perfrunner.new")
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
