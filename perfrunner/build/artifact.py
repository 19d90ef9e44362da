"""Represent built artifacts: their record, manifest and provenance, and the shared libraries bundled with them.

The provenance describes the origin of an artifact, so that it can be built again and distinguished from others.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.build.identity import allocator_pin
from perfrunner.build.tools import captured
from perfrunner.errors import BuildError

if TYPE_CHECKING:
    from perfrunner.build.tree import BuildPlan


@dataclass(frozen=True)
class Artifact:
    """A relocatable directory: bin/, lib/ (libraries that Debian's base lacks), manifest.json, provenance.json.

    Variants that differ only in run-time settings share an artifact. `cached` tells whether it existed
    before; `seconds` is the duration of the call.
    """

    build_id: str
    path: Path
    provenance: dict[str, Any] = field(repr=False)
    cached: bool
    seconds: float


MANIFEST = "manifest.json"
_SCHEMA = 1


def write_manifest(directory: Path, build_id: str, shared: Mapping[str, str] | None = None) -> None:
    """Write the manifest, the last of all files: an artifact without one is not complete.

    `shared` has the digests of files that belong to another artifact (`sums_of`), which are not computed
    again.
    """
    document = {"schema": _SCHEMA, "build_id": build_id, "files": _sums(directory, shared or {})}
    (directory / MANIFEST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def sums_of(directory: Path) -> dict[str, str]:
    """Return the digest of each file according to the manifest. Raises BuildError if it cannot be read."""
    path = directory / MANIFEST
    try:
        return {str(k): str(v) for k, v in json.loads(path.read_bytes())["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(
            f"cannot read {path} ({error})", "run `perfrunner clean --builds`, then build again"
        ) from error


def damage(directory: Path, build_id: str) -> str | None:
    """Return what is wrong with the artifact; None if it has exactly the files of its manifest, unaltered."""
    try:
        document = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        listed = dict(document["files"])
        if (document["schema"], document["build_id"]) != (_SCHEMA, build_id):
            return "its manifest belongs to another artifact"
    except FileNotFoundError:
        return "it has no manifest"
    except (OSError, ValueError, KeyError, TypeError):
        return "its manifest cannot be read"
    try:
        present = _sums(directory, {})
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    for name in sorted(listed.keys() | present.keys()):
        if listed.get(name) != present.get(name):
            if name not in present:
                return f"{name} is missing"
            return f"{name} is {'altered' if name in listed else 'not in its manifest'}"
    return None


def _sums(directory: Path, known: Mapping[str, str]) -> dict[str, str]:
    files = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    return {
        name: known.get(name) or hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if name != MANIFEST
    }


_GLIBC = re.compile(
    r"ld-linux.*|linux-vdso.*|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|mvec|BrokenLocale|thread_db|nss_\w+)\.so.*"
)
_LINE = re.compile(r"^\s*(?P<name>\S+)(?: => (?P<path>not found|\S+))?(?: \(0x[0-9a-f]+\))?$")


def bundle_libraries(prefix: Path, env: Mapping[str, str]) -> list[str]:
    """Copy the libraries of the programs in `prefix`/bin to `prefix`/lib, and check that they are found there."""
    library_dir = prefix / "lib"
    programs = [path for path in sorted((prefix / "bin").iterdir()) if _is_elf(path)]
    bundled: set[str] = set()
    for program in programs:
        for name, path in needed(program, env).items():
            if name in bundled:
                continue
            if path is None:
                raise BuildError(f"{program.name} needs {name}, which is not on this machine")
            library_dir.mkdir(exist_ok=True)
            if path.parent.resolve() != library_dir.resolve():
                shutil.copyfile(path, library_dir / name)
            bundled.add(name)
    for program in programs:
        for name, path in needed(program, env).items():
            if path is None or path.parent.resolve() != library_dir.resolve():
                raise BuildError(
                    f"{program.name} would not run on another host: it takes {name} from {path}",
                    hint="its install rpath must be $ORIGIN/../lib (engine_src/CMakeLists.txt)",
                )
    return sorted(bundled)


def needed(program: Path, env: Mapping[str, str]) -> dict[str, Path | None]:
    """Return the program's libraries except glibc's, with the path that the loader finds (None: not found)."""
    done = captured(["ldd", str(program)], env, timeout=60)
    if (
        "not a dynamic executable" in done.stdout + done.stderr
        or "statically linked" in done.stdout
    ):
        return {}
    if done.returncode != 0:
        raise BuildError(f"ldd {program} failed: {done.stderr.strip()}")
    return parse_ldd(done.stdout)


def parse_ldd(text: str) -> dict[str, Path | None]:
    """Parse the output of `ldd`."""
    libraries: dict[str, Path | None] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name = match["name"].rpartition("/")[2]
        if _GLIBC.fullmatch(name):
            continue
        path = match["path"] or match["name"]
        libraries[name] = None if path == "not found" else Path(path)
    return libraries


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


PROVENANCE = "provenance.json"
_PROVENANCE_SCHEMA = 1
_FLAG = ("-O", "-g", "-f", "-m", "-std", "-D", "-W")


def provenance_of(
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
        "schema": _PROVENANCE_SCHEMA,
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
        commands = json.loads(
            (tree / "compile_commands.json").read_text("utf-8", "surrogateescape")
        )
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
    done = captured(["git", "-C", str(directory), *arguments], env)
    done.check_returncode()
    return done.stdout
