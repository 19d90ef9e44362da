"""Bring a server to a host over SSH.

A program or library that a spec names by its path, or that was built here, is sent with the libraries that it needs,
once per content, and so are the files of a checkout that a command names. One that is named without a directory is the
host's own, and so is an image.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfrunner.build.artifact import needed
from perfrunner.errors import BuildError, UsageError
from perfrunner.hosts import Host
from perfrunner.hosts.container import find_image
from perfrunner.hosts.packing import tree_digest
from perfrunner.hosts.transport import Transport
from perfrunner.paths import absolute_variable, absolute_word, with_home
from perfrunner.servers.checks import own_allocator_text
from perfrunner.servers.preload import ALLOCATOR_MARKS, how_to_install, library_in, read_elf
from perfrunner.servers.prepare import (
    DIRECTORY,
    PreparedServer,
    content_of,
    in_image,
    preloading,
)
from perfrunner.spec.variant import Variant

SENT = "sent"  # below the servers of the build cache: what hosts get, by content
SEARCH = "LD_LIBRARY_PATH"
# What may be sent, by the directory that it gets: where the provenance has its sha256, and how it is introduced.
_DIGESTS = {"bin": "sha256", "launched": "launched_sha256"}
_INTRODUCED = {"bin": "", "launched": "starts ", "preload": "preloaded "}
# $1 is a name. Prints path and sha256.
_FIND_PROGRAM = """\
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
path=$(command -v -- "$1") || exit 3
echo "$path"; sha256sum < "$path"
"""
_NOT_SENT = shutil.ignore_patterns(".git")
_LDCONFIG = "PATH=$PATH:/usr/sbin:/sbin; ldconfig -p"


def place(server: PreparedServer, variant: Variant, host: Host, cache_dir: Path) -> PreparedServer:
    """Return the server with its paths on the host. Raises UsageError, BuildError or HostError."""
    if variant.server is not None and (name := variant.server.image) is not None:
        placed_as = f"image {name} of {host.name}"
        return in_image(variant, find_image(name, host.transport), placed=placed_as)
    described = dict(server.provenance["server"])
    preload = variant.allocator.preload
    programs = {"bin": server.program}
    if server.launched is not None:
        programs["launched"] = server.launched
    here = {kind: path for kind, path in programs.items() if described[_DIGESTS[kind]] is not None}
    own = programs.keys() - here.keys()
    if server.library is not None:
        here["preload"] = server.library
    named = _named_files(server)
    files = {**{f"{kind}/{path.name}": path for kind, path in here.items()}, **named}
    words, env = server.arguments, dict(server.env)
    sent, placed = None, {}
    if files:
        tree = _staged(files, cache_dir, _with_paths(server, str)[1].get(SEARCH))
        sent = Path(host.deploy(tree, tree.name))
        placed = {kind: sent / kind / path.name for kind, path in here.items()}
        there = {path: str(sent / name) for name, path in named.items()}
        words, env = _with_paths(server, there.__getitem__)
        if any((tree / "lib").iterdir()):
            env[SEARCH] = ":".join(filter(None, [str(sent / "lib"), env.get(SEARCH)]))
    for kind in own:
        placed[kind], described[_DIGESTS[kind]] = _own_program(
            host, programs[kind].name, variant, server.kind
        )
    if server.library is None and preload is not None:
        placed["preload"], described["library_sha256"] = _own_library(host, preload)
    library, launched = placed.get("preload"), placed.get("launched")
    described |= {
        "program": str(placed["bin"]),
        "library": None if library is None else str(library),
        "placed": "; ".join(
            f"{_INTRODUCED[kind]}{here[kind]} of this machine, sent to {host.name}"
            if kind in here
            else f"{_INTRODUCED[kind]}{placed[kind]} of {host.name}"
            for kind in _INTRODUCED
            if kind in placed
        ),
    }
    arguments = list(words)
    if launched is not None:
        described["launched"] = str(launched)
        arguments[arguments.index(str(server.launched))] = str(launched)
    return replace(
        server,
        program=placed["bin"],
        arguments=tuple(arguments),
        launched=launched,
        library=library,
        env={**env, **preloading(variant, library)},
        content=content_of(described),
        provenance={"server": described},
        sent=sent,
        checkout=None,
    )


# -- of this machine


def _with_paths(
    server: PreparedServer, named: Callable[[Path], str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the arguments and variables with files of the checkout as `named` writes them."""
    if server.checkout is None:
        return server.arguments, dict(server.env)
    tree = server.checkout
    env = {name: absolute_variable(name, text, tree, named) for name, text in server.env.items()}
    return tuple(absolute_word(word, tree, named) for word in server.arguments), env


def _named_files(server: PreparedServer) -> dict[str, Path]:
    """Return the files of the checkout that arguments and variables name, by where they are put in what is sent."""
    files: dict[str, Path] = {}

    def note(path: Path) -> str:
        name = os.path.relpath(path, server.checkout)
        outside = Path(os.path.normpath(path)).name  # that of `..` is the name of a directory
        files[f"files/{outside if name.startswith('..') else name}"] = path
        return ""

    _with_paths(server, note)
    return files


def _staged(files: Mapping[str, Path], cache_dir: Path, search: str | None) -> Path:
    """Return a directory with the files and directories by these names, and in lib/ the libraries that they need.

    `search` is where the loader looks for libraries first.
    """
    env = {**os.environ, SEARCH: ":".join(filter(None, [search, os.environ.get(SEARCH)]))}
    kept = with_home(cache_dir).absolute() / DIRECTORY / SENT
    kept.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".", dir=kept))
    try:
        (staging / "lib").mkdir()
        for name, path in files.items():
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, ignore=_NOT_SENT, dirs_exist_ok=True)
                continue
            shutil.copy(path, target)
            for library in needed_libraries(path, env):
                shutil.copy(library, staging / "lib" / library.name)
        staging.chmod(0o755)
        tree = kept / f"{next(iter(files.values())).name}-{tree_digest(staging)[:16]}"
        try:
            staging.rename(tree)
        except OSError:
            if not tree.is_dir():  # else another run made the same one first
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return tree


def needed_libraries(path: Path, env: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the shared libraries that the loader finds for a file, without those of glibc.

    Raises BuildError if one is missing.
    """
    if read_elf(path) is None:
        return []
    libraries = needed(path, env)
    if missing := [name for name, place in libraries.items() if place is None]:
        raise BuildError(
            f"{path} needs {' and '.join(missing)}, which this machine does not have",
            "install it here, or set LD_LIBRARY_PATH in the environment of perfrunner",
        )
    return [place for place in libraries.values() if place is not None]


# -- of the host


def _own_program(host: Host, name: str, variant: Variant, kind: str) -> tuple[Path, str]:
    lines = _ask(host, [_FIND_PROGRAM, name]).splitlines()
    if len(lines) < 2:
        raise UsageError(
            f"server.command: {host.name} has no program {name}",
            f"install it on {host.name}, or give the path of a program of this machine, which is sent",
        )
    path, sums = lines
    if variant.allocator.preload is not None and (
        wrong := own_allocator(host.transport, path, kind)
    ):
        raise UsageError(wrong)
    return Path(path), sums.split()[0]


def own_allocator(host: Transport, path: str, kind: str) -> str | None:
    """Return why a preload would have no effect on a program of a host; None if it is not linked with an allocator."""
    marks = {mark.decode(): allocator for allocator, mark in ALLOCATOR_MARKS.items()}
    words = [word for mark in marks for word in ("-e", mark)]
    for mark in host.run(["grep", "-aoF", *words, "--", path], check=False).stdout.splitlines():
        return f"allocator.preload: {own_allocator_text(marks[mark], path, kind)}"
    return None


def _own_library(host: Host, preload: str) -> tuple[Path, str]:
    library = library_in(_ask(host, [_LDCONFIG]), preload)
    if library is None:
        raise UsageError(
            f"allocator.preload: the loader of {host.name} knows no library of {preload}",
            f"on {host.name}: {how_to_install(preload)}",
        )
    path, sums = _ask(host, ['readlink -f -- "$1" && sha256sum < "$1"', library]).splitlines()
    return Path(path), sums.split()[0]


def _ask(host: Host, script: Sequence[str]) -> str:
    text, *arguments = script
    return host.transport.run(["sh", "-c", text, "sh", *arguments], check=False).stdout
