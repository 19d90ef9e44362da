"""Describe the origin of an artifact, so that it can be built again and distinguished from others."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import platform
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfrunner.build.identity import allocator_pin
from perfrunner.build.tree import BuildPlan

PROVENANCE = "provenance.json"
_SCHEMA = 1
_FLAG = ("-O", "-g", "-f", "-m", "-std", "-D", "-W")


def describe(
    plan: BuildPlan,
    *,
    build_id: str,
    source: Mapping[str, Any],
    tree: Path,
    recipe: str,
    libraries: list[str],
    linked: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return the content of provenance.json, without the durations of the build.

    `source` has its sha256 and the result of origin_of. `linked` has the sha256 and package of each system
    library.
    """
    pin = allocator_pin(plan.source_dir, plan.allocator)
    return {
        "schema": _SCHEMA,
        "build_id": build_id,
        "source": dict(source),
        "options": dict(plan.options),
        "allocator": {"name": plan.allocator, "pin": dataclasses.asdict(pin) if pin else None},
        "compiler": {
            "version": plan.toolchain.compiler,
            "target": plan.toolchain.target,
            "path": plan.toolchain.cxx,
            "flags": compiler_flags(tree),
        },
        "linker": plan.toolchain.linker,
        "build_type": plan.build_type,
        "programs": list(plan.programs) or "all",
        "cmake": plan.toolchain.cmake_version,
        "c_compiler": plan.toolchain.c_compiler,
        "cargo": plan.cargo or None,
        "recipe": recipe,
        "libraries": libraries,
        "linked": {name: dict(facts) for name, facts in linked.items()},
        "built_at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "built_on": f"{platform.node()} {platform.platform()}",
    }


def origin_of(source_dir: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the origin of a source: its directory and git's revision there."""
    return {"directory": str(source_dir), **git_state(source_dir, env)}


def git_state(directory: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the revision, and whether the source differs from it; empty without git or repository.

    A repository that does not track the source does not count, because a build cache may lie anywhere.
    """
    nothing = {"git_revision": None, "git_dirty": None}
    try:
        if not _git(directory, env, "ls-files", "--", "CMakeLists.txt"):
            return nothing
        revision = _git(directory, env, "rev-parse", "HEAD")
        changes = _git(directory, env, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return nothing
    return {"git_revision": revision.strip(), "git_dirty": bool(changes.strip())}


def compiler_flags(tree: Path) -> list[str]:
    """Return the compiler flags that ninja was given: the union over the engine's C++ files."""
    try:
        commands = json.loads((tree / "compile_commands.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    flags: dict[str, None] = {}
    for command in commands:
        if command["file"].endswith((".cc", ".cpp")):
            words = shlex.split(command["command"])
            flags.update(dict.fromkeys(word for word in words if word.startswith(_FLAG)))
    return list(flags)


def read_provenance(artifact: Path) -> dict[str, Any]:
    """Read the provenance of a verified artifact."""
    document: dict[str, Any] = json.loads((artifact / PROVENANCE).read_text(encoding="utf-8"))
    return document


def _git(directory: Path, env: Mapping[str, str], *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(directory), *arguments],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
