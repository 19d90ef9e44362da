"""What it takes to link an artifact's programs once more, when its build tree has long been another build's.

Kept beside the artifact at build time: `links/<build_id>.json` has every program's link command as ninja ran it, and
`objects/<sha256>.a|.o` the objects and archives that the build made, each content once, so that variants share what
they have in common. What the system brings (librocksdb.a, shared libraries) is not kept, only its sha256: a link
against another one would not be the same program in another order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from perfrunner.errors import BuildError

_SCHEMA = 1
_REBUILD = "run `perfrunner clean --builds`, then build again"
_BEGIN, _END = [":", "&&"], ["&&", ":"]  # CMake's frame for a step without pre- and post-build


@dataclass(frozen=True)
class ProgramLink:
    """One program's link. `argv` as ninja ran it; `kept` and `outside`: the sha256 of each file that it names."""

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
    """While the tree's lock is held and after its build: store what relinking these programs takes."""
    sums: dict[Path, str] = {}
    wanted = set(programs)
    found = {
        name: _describe(argv, tree, cache_dir, sums)
        for name, argv in link_commands(tree, ninja, env).items()
        if name in wanted
    }
    document = {"schema": _SCHEMA, "programs": {name: asdict(found[name]) for name in found}}
    path = _path(cache_dir, build_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_whole(path, (json.dumps(document, indent=1) + "\n").encode())


def link_commands(tree: Path, ninja: str, env: Mapping[str, str]) -> dict[str, list[str]]:
    """Of every program that the tree links, by name: the command, relative to the tree."""
    return parse_commands(build_commands(tree, ninja, env))


def build_commands(tree: Path, ninja: str, env: Mapping[str, str]) -> str:
    """Of all that the tree builds as it is configured, a line each. BuildError."""
    done = subprocess.run(
        [ninja, "-C", str(tree), "-t", "commands"],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"ninja -t commands failed: {done.stderr.strip()[:300]}")
    return done.stdout


def parse_commands(text: str) -> dict[str, list[str]]:
    """The link steps among `ninja -t commands`."""
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
    """Whether the artifact's links were kept, and their objects are still there."""
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
    """The objects that an artifact's links need; empty where they cannot be read."""
    with contextlib.suppress(BuildError):
        return {
            _object(cache_dir, word, sha256)
            for link in _read(cache_dir, build_id).values()
            for word, sha256 in link.kept.items()
        }
    return set()


def kept_link(cache_dir: Path, build_id: str, program: str) -> list[str]:
    """The program's link command with every file as an absolute path, each checked. BuildError when one changed."""
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
            raise BuildError(f"{place[word]}, kept for linking {program}, is damaged", _REBUILD)
    for word, sha256 in link.outside.items():
        if not Path(word).is_file() or sha256_of(Path(word)) != sha256:
            raise BuildError(f"{word} is not what build {build_id} was linked with", _REBUILD)
    return [str(place.get(word, word)) for word in link.argv]


def sha256_of(path: Path) -> str:
    """Of a file's content."""
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
        path = tree / word  # an absolute one stays what it is
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
    """A copy: the build tree's next build writes over its own files."""
    if target.is_file() and target.stat().st_size == source.stat().st_size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _aside(target) as aside:
        shutil.copyfile(source, aside)
        aside.replace(target)


def _write_whole(path: Path, data: bytes) -> None:
    with _aside(path) as aside:
        aside.write_bytes(data)
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
            f"how build {build_id} was linked was not kept ({error})", _REBUILD
        ) from error
