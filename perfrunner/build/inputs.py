"""Record what a build reads outside the engine's source: system headers, static and shared libraries.

The files are known once a recipe (see identity.py) has been built: ninja records every object's headers, the
link commands name archives, and the loader finds the shared libraries. The list is stored in the cache, and
the current content of the files is part of the build id: after an upgrade of a library the same recipe is
another build.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from perfrunner.build.artifact import needed
from perfrunner.build.links import (
    build_commands,
    ninja_tool,
    parse_commands,
    sha256_of,
    write_json,
)
from perfrunner.build.output import captured

_SCHEMA = 1
_ABSENT = "absent"
_HEADERS = "headers"  # one digest for all of them, because there are thousands
_OUTPUT = re.compile(r" -o (\S+) ")


def keep_inputs(cache_dir: Path, recipe: str, files: Iterable[Path]) -> None:
    """Store the list of files that a recipe reads."""
    document = {"schema": _SCHEMA, "files": sorted({str(file) for file in files})}
    write_json(_path(cache_dir, recipe), document)


def known_inputs(cache_dir: Path, recipe: str) -> list[Path] | None:
    """Return the files that a recipe reads; None if it has not been built."""
    try:
        document = json.loads(_path(cache_dir, recipe).read_text(encoding="utf-8"))
        return [Path(name) for name in document["files"]] if document["schema"] == _SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_inputs(
    build: Path,
    programs: Iterable[Path],
    inside: Iterable[Path],
    ninja: str,
    env: Mapping[str, str],
) -> list[Path]:
    """Return every file outside the directories `inside` that a finished build tree has read.

    Objects of an earlier build in the same tree that this one does not use are ignored.
    """
    roots = [place.resolve() for place in inside]
    commands = build_commands(build, ninja, env)
    objects = set(_OUTPUT.findall(commands))
    read = {build / name for name in _headers(build, objects, ninja, env)}
    for argv in parse_commands(commands).values():
        output = argv[argv.index("-o") + 1]
        read.update(
            build / word for word in argv[1:] if not word.startswith("-") and word != output
        )
    for program in programs:
        read.update(path for path in needed(program, env).values() if path is not None)
    resolved = {path.resolve() for path in read if path.is_file()}
    return [p for p in sorted(resolved) if not any(p.is_relative_to(root) for root in roots)]


def keep_sums(record: Path, files: Iterable[Path]) -> None:
    """Record the digests of the files that a tree was built from."""
    write_json(record, {**_kept_sums(record), **{str(file): _sum_of(file) for file in files}})


def changed_since(record: Path) -> list[str]:
    """Return the files whose content differs from when the tree was built.

    ninja compares times, and the files of a package have the date on which the distribution made it: an
    upgrade may be older than the last build here.
    """
    return [name for name, kept in _kept_sums(record).items() if _sum_of(Path(name)) != kept]


def _kept_sums(record: Path) -> dict[str, str]:
    try:
        kept: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept


def input_sums(files: Iterable[Path]) -> dict[str, str]:
    """Return the sha256 of each library, and one digest over all headers; a missing file has the digest `absent`."""
    sums: dict[str, str] = {}
    headers = hashlib.sha256()
    for path in sorted(files, key=str):
        digest = _sum_of(path)
        if is_library(path):
            sums[str(path)] = digest
        else:
            headers.update(f"{path}\0{digest}\0".encode())
    sums[_HEADERS] = headers.hexdigest()
    return sums


def _sum_of(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError:
        return _ABSENT


def is_library(path: Path) -> bool:
    """Tell whether a file is an archive, an object or a shared library; other files are text for the compiler."""
    return path.suffix in {".a", ".o", ".so"} or ".so." in path.name


def libraries(sums: Mapping[str, str], env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return each library's sha256 and its Debian package, if any, for display."""
    names = [name for name in sums if name != _HEADERS]
    packages = _packages(names, env)
    return {
        Path(name).name: {"sha256": sums[name], "package": packages.get(name, "")} for name in names
    }


def _headers(build: Path, objects: set[str], ninja: str, env: Mapping[str, str]) -> set[str]:
    """Return the headers of these objects.

    `ninja -t deps` prints an object's name at the margin and its dependencies indented.
    """
    headers: set[str] = set()
    for block in ninja_tool("deps", build, ninja, env).split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        if head.partition(": ")[0] in objects:
            headers.update(line.strip() for line in lines)
    return headers


def _packages(names: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return package and version by file (`librocksdb-dev 7.8.3-2`), without files that dpkg does not know.

    Empty without dpkg.
    """
    # Debian's merged /usr: a package may list the file under /lib.
    asked = {path: name for name in names for path in (name, name.removeprefix("/usr"))}
    owners = {}
    for line in _output_of(["dpkg-query", "--search", *asked], env).splitlines():
        owner, _, path = line.rpartition(": ")
        if path in asked and "," not in owner:
            owners[asked[path]] = owner
    if not owners:
        return {}
    packages = sorted(set(owners.values()))
    shown = "${binary:Package}\t${Package} ${Version}\n"
    versions = dict(
        line.split("\t")
        for line in _output_of(["dpkg-query", "-W", "-f", shown, *packages], env).splitlines()
    )
    packages_of = {name: versions.get(owner, "") for name, owner in owners.items()}
    return {name: version for name, version in packages_of.items() if version}


def _output_of(argv: list[str], env: Mapping[str, str]) -> str:
    try:
        done = captured(argv, env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()  # partial output is useful even if some files are unknown


def _path(cache_dir: Path, recipe: str) -> Path:
    return cache_dir / "inputs" / f"{recipe}.json"
