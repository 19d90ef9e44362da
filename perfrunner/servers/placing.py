"""Bring a server to a host over SSH.

A program or library that a spec names by its path, or that was built here, is sent with the libraries that it needs,
once per content. One that is named without a directory is the host's own, and so is an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfrunner.build.artifact import needed
from perfrunner.errors import BuildError, UsageError
from perfrunner.hosts import Host
from perfrunner.hosts.container import find_image
from perfrunner.paths import with_home
from perfrunner.servers.checkout import DIRECTORY
from perfrunner.servers.checks import own_allocator_text
from perfrunner.servers.preload import ALLOCATOR_MARKS, how_to_install, library_in, read_elf
from perfrunner.servers.prepare import (
    PreparedServer,
    content_of,
    in_image,
    preloading,
    sha256_of,
)
from perfrunner.spec.variant import Variant

SENT = "sent"  # below the servers of the build cache: what hosts get, by content
SEARCH = "LD_LIBRARY_PATH"
# What may be sent, by the directory that it gets: where the provenance has its sha256, and how it is introduced.
_DIGESTS = {"bin": "sha256", "launched": "launched_sha256"}
_INTRODUCED = {"bin": "", "launched": "starts ", "preload": "preloaded "}
# $1 is a name; $2 and more are texts to look for in the file. Prints path, sha256 and the texts that are there.
_FIND_PROGRAM = """\
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
path=$(command -v -- "$1") || exit 3
shift
echo "$path"; sha256sum < "$path"
for text do if grep -qaF -e "$text" -- "$path"; then echo "$text"; fi; done
"""
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
    files = {kind: path for kind, path in programs.items() if described[_DIGESTS[kind]] is not None}
    own = programs.keys() - files.keys()
    if server.library is not None:
        files["preload"] = server.library
    sent, search = None, {}
    placed = {}
    if files:
        tree = _staged(files, cache_dir)
        sent = Path(host.deploy(tree, tree.name))
        placed = {kind: sent / kind / path.name for kind, path in files.items()}
        if any((tree / "lib").iterdir()):
            search[SEARCH] = ":".join(filter(None, [str(sent / "lib"), variant.env.get(SEARCH)]))
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
            f"{_INTRODUCED[kind]}{files[kind]} of this machine, sent to {host.name}"
            if kind in files
            else f"{_INTRODUCED[kind]}{placed[kind]} of {host.name}"
            for kind in _INTRODUCED
            if kind in placed
        ),
    }
    arguments = list(server.arguments)
    if launched is not None:
        described["launched"] = str(launched)
        arguments[arguments.index(str(server.launched))] = str(launched)
    return replace(
        server,
        program=placed["bin"],
        arguments=tuple(arguments),
        launched=launched,
        library=library,
        env={**server.env, **preloading(variant, library), **search},
        content=content_of(described),
        provenance={"server": described},
        sent=sent,
    )


# -- of this machine


def _staged(files: Mapping[str, Path], cache_dir: Path) -> Path:
    """Return a directory with the files, each in a directory of its own, and in lib/ the libraries that they need."""
    libraries = {path.name: path for file in files.values() for path in needed_libraries(file)}
    content = [
        sorted((kind, path.name, sha256_of(path)) for kind, path in files.items()),
        sorted((name, sha256_of(path)) for name, path in libraries.items()),
    ]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    name = next(iter(files.values())).name
    tree = with_home(cache_dir).absolute() / DIRECTORY / SENT / f"{name}-{digest}"
    if tree.is_dir():
        return tree
    tree.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.parent))
    try:
        (staging / "lib").mkdir()
        for kind, path in files.items():
            (staging / kind).mkdir()
            shutil.copy(path, staging / kind / path.name)
        for name, path in libraries.items():
            shutil.copy(path, staging / "lib" / name)
        staging.chmod(0o755)
        staging.rename(tree)
    except OSError:
        if not tree.is_dir():  # another run made the same one first
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return tree


def needed_libraries(path: Path) -> list[Path]:
    """Return the shared libraries that the loader finds for a file, without those of glibc.

    Raises BuildError if one is missing.
    """
    if read_elf(path) is None:
        return []
    libraries = needed(path, os.environ)
    if missing := [name for name, place in libraries.items() if place is None]:
        raise BuildError(
            f"{path} needs {' and '.join(missing)}, which this machine does not have",
            "install it here, or set LD_LIBRARY_PATH in the environment of perfrunner",
        )
    return [place for place in libraries.values() if place is not None]


# -- of the host


def _own_program(host: Host, name: str, variant: Variant, kind: str) -> tuple[Path, str]:
    marks = {mark.decode(): allocator for allocator, mark in ALLOCATOR_MARKS.items()}
    lines = _ask(host, [_FIND_PROGRAM, name, *marks]).splitlines()
    if len(lines) < 2:
        raise UsageError(
            f"server.command: {host.name} has no program {name}",
            f"install it on {host.name}, or give the path of a program of this machine, which is sent",
        )
    path, sums, *linked = lines
    if linked and variant.allocator.preload is not None:
        raise UsageError(f"allocator.preload: {own_allocator_text(marks[linked[0]], path, kind)}")
    return Path(path), sums.split()[0]


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
