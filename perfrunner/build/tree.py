"""Keep CMake build trees between builds, so that little is compiled twice.

There is one tree for each build type and compiler, for sources of any directory or revision. It has a private
copy of the source (see snapshot.py), and is configured again for every variant: another ENGINE_ALLOCATOR
relinks, another build switch recompiles only files that include that switch's header, another revision only
files that differ. One build at a time uses a tree (an flock next to it); the allocators' own builds are
shared by all trees.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perfrunner.build.cache import locked
from perfrunner.build.output import Progress, run_logged
from perfrunner.build.toolchain import Toolchain
from perfrunner.errors import BuildError

COMPONENT = "artifact"
_SCHEMA = 3  # raise it when the layout of a tree's directory changes


@dataclass(frozen=True)
class BuildPlan:
    """The input of CMake. `options` are cache variables (ENGINE_HT_STATS...), without the allocator.

    `programs` selects programs, if the source knows KV_PROGRAMS (empty: all). `cargo` is the version of the
    tool that fetches and builds the allocator; empty if none is needed.
    """

    source_dir: Path
    options: Mapping[str, str]
    allocator: str
    build_type: str
    toolchain: Toolchain
    cargo: str = ""
    programs: tuple[str, ...] = ()

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
        """The record of system files that the build read (see inputs.py)."""
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
        "build": [plan.toolchain.ninja, "-C", str(tree.build), f"-j{parallelism()}"],
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
