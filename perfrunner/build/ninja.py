"""Record what a build reads and links, from what ninja knows of its tree.

Inputs outside the engine's source (system headers, static and shared libraries) are known once a recipe (see
identity.py) has been built: ninja records every object's headers, the link commands name archives, and the loader
finds the shared libraries. The list is stored in the cache, and the current content of the files is part of the
build id: after an upgrade of a library the same recipe is another build.

Links are stored so that programs can be linked again after their build tree serves another build.
`links/<build_id>.json` gets every program's link command as ninja ran it, and `objects/<sha256>.a|.o` the objects
and archives that the build made, each content once, so that variants share common parts. Of system files
(librocksdb.a, shared libraries) only the sha256 is stored: a link with another version would not be the same program
in another order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from perfrunner.build.artifact import needed
from perfrunner.build.tools import captured
from perfrunner.errors import BuildError
from perfrunner.paths import sha256_of

_INPUTS_SCHEMA = 1
_LINKS_SCHEMA = 1
_REBUILD = "run `perfrunner clean --builds`, then build again"
# How CMake frames a step without pre-build and post-build commands.
_BEGIN, _END = [":", "&&"], ["&&", ":"]
_ABSENT = "absent"
_HEADERS = "headers"  # one digest for all of them, because there are thousands
_OUTPUT = re.compile(r" -o (\S+) ")


def keep_inputs(cache_dir: Path, recipe: str, files: Iterable[Path]) -> None:
    """Store the list of files that a recipe reads."""
    document = {"schema": _INPUTS_SCHEMA, "files": sorted({str(file) for file in files})}
    write_json(_inputs_path(cache_dir, recipe), document)


def known_inputs(cache_dir: Path, recipe: str) -> list[Path] | None:
    """Return the files that a recipe reads; None if it has not been built."""
    try:
        document = json.loads(_inputs_path(cache_dir, recipe).read_text(encoding="utf-8"))
        files = [Path(name) for name in document["files"]]
        return files if document["schema"] == _INPUTS_SCHEMA else None
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


def _inputs_path(cache_dir: Path, recipe: str) -> Path:
    return cache_dir / "inputs" / f"{recipe}.json"


@dataclass(frozen=True)
class ProgramLink:
    """The link of one program: `argv` as ninja ran it, and the sha256 of each file that it names.

    `kept` are files stored in the cache, `outside` are files of the system.
    """

    argv: tuple[str, ...]
    kept: Mapping[str, str]
    outside: Mapping[str, str]


def keep_links(
    cache_dir: Path,
    build_id: str,
    tree: Path,
    programs: Iterable[str],
    *,
    ninja: str,
    env: Mapping[str, str],
) -> None:
    """Store what relinking these programs needs. Call it after the build, while the tree's lock is held."""
    sums: dict[Path, str] = {}
    wanted = set(programs)
    links = {
        name: _describe(argv, tree, cache_dir, sums)
        for name, argv in parse_commands(build_commands(tree, ninja, env)).items()
        if name in wanted
    }
    document = {
        "schema": _LINKS_SCHEMA,
        "programs": {name: asdict(link) for name, link in links.items()},
    }
    write_json(_links_path(cache_dir, build_id), document)


def build_commands(tree: Path, ninja: str, env: Mapping[str, str]) -> str:
    """Return the commands of everything that the configured tree builds, one per line. Raises BuildError."""
    return ninja_tool("commands", tree, ninja, env)


def ninja_tool(tool: str, tree: Path, ninja: str, env: Mapping[str, str]) -> str:
    """Return what one of ninja's tools prints about a build tree. Raises BuildError."""
    argv = [ninja, "-C", str(tree), "-t", tool]
    done = captured(argv, env, timeout=120)
    if done.returncode != 0:
        raise BuildError(f"ninja -t {tool} failed: {done.stderr.strip()[:300]}")
    return done.stdout


def parse_commands(text: str) -> dict[str, list[str]]:
    """Return the link command, relative to the tree, of each program in the output of `ninja -t commands`."""
    commands: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith(": && "):
            continue
        words = shlex.split(line)
        argv = words[2:-2]
        framed = words[:2] == _BEGIN and words[-2:] == _END and "&&" not in argv
        if framed and "-o" in argv[:-1] and not any(word.startswith("@") for word in argv):
            commands[Path(argv[argv.index("-o") + 1]).name] = argv
    return commands


def has_links(cache_dir: Path, build_id: str) -> bool:
    """Tell whether the artifact's links are stored and their objects still exist."""
    try:
        programs = _read_links(cache_dir, build_id)
    except BuildError:
        return False
    return all(
        _object(cache_dir, word, sha256).is_file()
        for link in programs.values()
        for word, sha256 in link.kept.items()
    )


def objects_of(cache_dir: Path, build_id: str) -> set[Path]:
    """Return the objects that an artifact's links need; empty if the links cannot be read."""
    with contextlib.suppress(BuildError):
        return {
            _object(cache_dir, word, sha256)
            for link in _read_links(cache_dir, build_id).values()
            for word, sha256 in link.kept.items()
        }
    return set()


def kept_link(cache_dir: Path, build_id: str, program: str) -> list[str]:
    """Return the program's link command with absolute paths.

    Every file is checked. Raises BuildError if one has changed.
    """
    programs = _read_links(cache_dir, build_id)
    if program not in programs:
        raise BuildError(
            f"build {build_id} links no program {program}",
            hint=f"its programs: {', '.join(sorted(programs))}",
        )
    link = programs[program]
    place = {word: _object(cache_dir, word, sha256) for word, sha256 in link.kept.items()}
    for word, sha256 in link.kept.items():
        if not place[word].is_file() or sha256_of(place[word]) != sha256:
            raise BuildError(f"{place[word]}, stored for linking {program}, is damaged", _REBUILD)
    for word, sha256 in link.outside.items():
        if not Path(word).is_file() or sha256_of(Path(word)) != sha256:
            raise BuildError(f"{word} has changed since build {build_id} was linked", _REBUILD)
    return [str(place.get(word, word)) for word in link.argv]


def _describe(argv: list[str], tree: Path, cache_dir: Path, sums: dict[Path, str]) -> ProgramLink:
    kept: dict[str, str] = {}
    outside: dict[str, str] = {}
    output = argv[argv.index("-o") + 1]
    for word in argv[1:]:
        path = tree / word  # an absolute path stays unchanged
        if word.startswith("-") or word == output or not path.is_file():
            continue
        if path not in sums:
            sums[path] = sha256_of(path)
        # made by this build, or by cargo for an allocator
        if any(path.resolve().is_relative_to(place.resolve()) for place in (tree, cache_dir)):
            _keep(path, _object(cache_dir, word, sums[path]))
            kept[word] = sums[path]
        else:
            outside[word] = sums[path]
    return ProgramLink(tuple(argv), kept, outside)


def _keep(source: Path, target: Path) -> None:
    """Copy a file. A link would not do, because the tree's next build overwrites its files."""
    if target.is_file() and target.stat().st_size == source.stat().st_size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _aside(target) as aside:
        shutil.copyfile(source, aside)
        aside.replace(target)


def write_json(path: Path, document: object) -> None:
    """Write a JSON file of the build cache completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _aside(path) as aside:
        aside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        aside.replace(path)


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    fd, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    os.close(fd)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _links_path(cache_dir: Path, build_id: str) -> Path:
    return cache_dir / "links" / f"{build_id}.json"


def _object(cache_dir: Path, word: str, sha256: str) -> Path:
    return cache_dir / "objects" / f"{sha256}{Path(word).suffix}"


def _read_links(cache_dir: Path, build_id: str) -> dict[str, ProgramLink]:
    path = _links_path(cache_dir, build_id)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _LINKS_SCHEMA:
            raise ValueError("another schema")
        return {
            name: ProgramLink(tuple(link["argv"]), link["kept"], link["outside"])
            for name, link in document["programs"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(
            f"the link commands of build {build_id} are not stored ({error})", _REBUILD
        ) from error
