"""What a build read that is not the engine's: system headers, static and shared libraries.

Which files these are is known once a recipe (see identity.py) was built: ninja has every object's headers, the link
commands name archives, the loader finds the shared ones. The list is kept in the cache, and what the files hold *now*
is a part of the build id: after an upgrade of a library the same recipe is another build.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from perfrunner.build.bundle import needed
from perfrunner.build.links import build_commands, parse_commands, sha256_of
from perfrunner.errors import BuildError

_SCHEMA = 1
_ABSENT = "absent"
_HEADERS = "headers"  # their sum stands for them: there are thousands
_OUTPUT = re.compile(r" -o (\S+) ")


def keep_inputs(cache_dir: Path, recipe: str, files: Iterable[Path]) -> None:
    """Remember which files a recipe reads."""
    path = _path(cache_dir, recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema": _SCHEMA, "files": sorted({str(file) for file in files})}
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")
    aside.replace(path)


def known_inputs(cache_dir: Path, recipe: str) -> list[Path] | None:
    """The files that a recipe reads; None before it was built."""
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
    """Of a finished build tree: every file that it read outside the directories `inside`.

    What an earlier build in the tree made, and this one has no use for, is not asked.
    """
    roots = [place.resolve() for place in inside]
    commands = build_commands(build, ninja, env)
    objects = set(_OUTPUT.findall(commands))
    found = {build / name for name in _headers(build, objects, ninja, env)}
    for argv in parse_commands(commands).values():
        output = argv[argv.index("-o") + 1]
        found.update(
            build / word for word in argv[1:] if not word.startswith("-") and word != output
        )
    for program in programs:
        found.update(path for path in needed(program, env).values() if path is not None)
    resolved = {path.resolve() for path in found if path.is_file()}
    return [p for p in sorted(resolved) if not any(p.is_relative_to(root) for root in roots)]


def keep_sums(record: Path, files: Iterable[Path]) -> None:
    """Beside a build tree: what the files that it was built from hold."""
    kept = {**_kept_sums(record), **{str(file): _sum_of(file) for file in files}}
    aside = record.with_suffix(".new")
    aside.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    aside.replace(record)


def changed_since(record: Path) -> list[str]:
    """Files that hold something else than when the tree was built. ninja goes by their times, and those of a package
    are of the day on which the distribution made it: an upgrade may be older than what was built here before.
    """
    return [name for name, kept in _kept_sums(record).items() if _sum_of(Path(name)) != kept]


def _kept_sums(record: Path) -> dict[str, str]:
    try:
        kept: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept


def input_sums(files: Iterable[Path]) -> dict[str, str]:
    """By library its sha256, and one sum over all headers; a file that is gone has none."""
    sums: dict[str, str] = {}
    headers = hashlib.sha256()
    for path in sorted(files, key=str):
        one = _sum_of(path)
        if is_library(path):
            sums[str(path)] = one
        else:
            headers.update(f"{path}\0{one}\0".encode())
    sums[_HEADERS] = headers.hexdigest()
    return sums


def _sum_of(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError:
        return _ABSENT


def is_library(path: Path) -> bool:
    """An archive, an object or a shared library; all else is text that the compiler reads."""
    return path.suffix in {".a", ".o", ".so"} or ".so." in path.name


def libraries(sums: Mapping[str, str], env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """For a person: each library's sha256, and the Debian package that it is from, where it is from one."""
    names = [name for name in sums if name != _HEADERS]
    packages = _packages(names, env)
    return {
        Path(name).name: {"sha256": sums[name], "package": packages.get(name, "")} for name in names
    }


def _headers(build: Path, objects: set[str], ninja: str, env: Mapping[str, str]) -> set[str]:
    """Of these objects. `ninja -t deps`: an object's name at the margin, then what it was made of, indented."""
    done = subprocess.run(
        [ninja, "-C", str(build), "-t", "deps"],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"ninja -t deps failed: {done.stderr.strip()[:300]}")
    found: set[str] = set()
    for block in done.stdout.split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        if head.partition(": ")[0] in objects:
            found.update(line.strip() for line in lines)
    return found


def _packages(names: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """`librocksdb-dev 7.8.3-2` by file; without those that dpkg does not know. Empty where there is no dpkg."""
    # Debian's merged /usr: a package may list the file under /lib.
    asked = {path: name for name in names for path in (name, name.removeprefix("/usr"))}
    owners = {}
    for line in _said(["dpkg-query", "--search", *asked], env).splitlines():
        owner, _, path = line.rpartition(": ")
        if path in asked and "," not in owner:
            owners[asked[path]] = owner
    if not owners:
        return {}
    packages = sorted(set(owners.values()))
    shown = "${binary:Package}\t${Package} ${Version}\n"
    versions = dict(
        line.split("\t")
        for line in _said(["dpkg-query", "-W", "-f", shown, *packages], env).splitlines()
    )
    found = {name: versions.get(owner, "") for name, owner in owners.items()}
    return {name: version for name, version in found.items() if version}


def _said(argv: list[str], env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            argv, env=dict(env), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()  # what it found, also where it did not find all


def _path(cache_dir: Path, recipe: str) -> Path:
    return cache_dir / "inputs" / f"{recipe}.json"
