"""Store what relinking needs, so that programs can be linked again after their build tree serves another build.

At build time `links/<build_id>.json` gets every program's link command as ninja ran it, and
`objects/<sha256>.a|.o` the objects and archives that the build made, each content once, so that variants
share common parts. Of system files (librocksdb.a, shared libraries) only the sha256 is stored: a link with
another version would not be the same program in another order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from perfrunner.build.output import captured
from perfrunner.errors import BuildError

_SCHEMA = 1
_REBUILD = "run `perfrunner clean --builds`, then build again"
_BEGIN, _END = (
    [":", "&&"],
    ["&&", ":"],
)  # how CMake frames a step without pre-build and post-build commands


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
    document = {"schema": _SCHEMA, "programs": {name: asdict(link) for name, link in links.items()}}
    write_json(_path(cache_dir, build_id), document)


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
        programs = _read(cache_dir, build_id)
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
            for link in _read(cache_dir, build_id).values()
            for word, sha256 in link.kept.items()
        }
    return set()


def kept_link(cache_dir: Path, build_id: str, program: str) -> list[str]:
    """Return the program's link command with absolute paths.

    Every file is checked. Raises BuildError if one has changed.
    """
    programs = _read(cache_dir, build_id)
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


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's content."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


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


def _path(cache_dir: Path, build_id: str) -> Path:
    return cache_dir / "links" / f"{build_id}.json"


def _object(cache_dir: Path, word: str, sha256: str) -> Path:
    return cache_dir / "objects" / f"{sha256}{Path(word).suffix}"


def _read(cache_dir: Path, build_id: str) -> dict[str, ProgramLink]:
    path = _path(cache_dir, build_id)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            raise ValueError("another schema")
        return {
            name: ProgramLink(tuple(link["argv"]), link["kept"], link["outside"])
            for name, link in document["programs"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(
            f"the link commands of build {build_id} are not stored ({error})", _REBUILD
        ) from error
