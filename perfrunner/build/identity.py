"""Compute the build id: a hash of everything that determines an artifact's programs.

The *recipe* covers the engine's source (all files except tests, fuzz targets and documentation, which no
program contains), the build switches, the allocator with its pin, the build type, the selection of programs
if it is not all, the compilers (Rust's as well if cargo builds an allocator) and the linker. The build id
covers the recipe and the content of every system file that the build reads (see ninja.py): headers, static
and shared libraries. It does not cover run-time settings, the time, the caller's environment, or the location
of source, cache and tools.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from perfrunner.errors import BuildError

ID_LENGTH = 12
_SCHEMA = 3  # raise it when the contents of artifacts change

# perfrunner-results is created there when perfrunner runs from within the engine's source.
_OTHER_DIRS = re.compile(
    r"tests|fuzz|build|build-.*|cmake-build-.*|target|__pycache__|perfrunner-results|\..*"
)
_OTHER_FILES = re.compile(
    r".*_(test|fuzz)\.(cc|c|h)|.*\.(md|o|swp|orig|rej)|.*~|\..*|CMakePresets\.json|CMakeUserPresets\.json"
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
ALLOCATORS = "allocators"
PINS = ("Cargo.toml", "Cargo.lock")  # of each allocator, in its folder


@dataclass(frozen=True)
class AllocatorPin:
    """The version of an allocator that Cargo.lock pins; None for an allocator of the system."""

    crate: str
    version: str
    sha256: str


def source_files(source_dir: Path) -> Iterator[Path]:
    """Yield every file that an artifact depends on, except the allocators' pins, in a fixed order.

    Links are followed. Pipes, sockets and devices have no content, and git does not know them either.
    """
    for directory, names, files in os.walk(source_dir, followlinks=True):
        here = Path(directory)
        names[:] = sorted(
            name
            for name in names
            if not _OTHER_DIRS.fullmatch(name) and not _leads_back(here / name)
        )
        if here == source_dir / ALLOCATORS:
            names[:] = [name for name in names if not (here / name / "Cargo.toml").exists()]
        for name in sorted(files):
            if not _OTHER_FILES.fullmatch(name) and not _is_special(here / name):
                yield here / name


def _is_special(path: Path) -> bool:
    """Tell whether reading a path would wait or fail; False for a link that leads nowhere, which is an error later."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _leads_back(directory: Path) -> bool:
    """Tell whether a link leads to a directory that contains it; following it would never end."""
    return directory.is_symlink() and directory.parent.resolve().is_relative_to(directory.resolve())


def is_source(name: str) -> bool:
    """Tell whether a build reads a file of this name (relative to the engine's source)."""
    *directories, file = name.split("/")
    return not _OTHER_FILES.fullmatch(file) and not any(map(_OTHER_DIRS.fullmatch, directories))


def _require_source(source_dir: Path) -> None:
    if not (source_dir / "CMakeLists.txt").is_file():
        raise BuildError(f"{source_dir} holds no engine source (no CMakeLists.txt)")


def source_hash(source_dir: Path) -> str:
    """Return the sha256 over the names and contents of the source files. Raises BuildError."""
    _require_source(source_dir)
    return _hash_files(source_dir, source_files(source_dir))


def tree_files(source_dir: Path, without: Sequence[str] = ()) -> Iterator[Path]:
    """Yield every file that a build can read: the source's files and every allocator's pin.

    Files in `without`, relative to the source, are left out; a name that ends in `/` is a directory.
    """
    directories = tuple(name for name in without if name.endswith("/"))
    for path in (*source_files(source_dir), *_pin_files(source_dir)):
        name = path.relative_to(source_dir).as_posix()
        if name not in without and not name.startswith(directories):
            yield path


def _pin_files(source_dir: Path) -> Iterator[Path]:
    for lock in sorted((source_dir / ALLOCATORS).glob("*/Cargo.toml")):
        yield from (lock.with_name(name) for name in PINS if lock.with_name(name).is_file())


def content_hash(source_dir: Path, without: Sequence[str] = ()) -> str:
    """Return the sha256 over names and contents of all files that a build can read; equal for equal sources."""
    _require_source(source_dir)
    return _hash_files(source_dir, tree_files(source_dir, without))


def allocator_hash(source_dir: Path, allocator: str) -> str:
    """Return the sha256 of the allocator's folder and the way allocators are built; empty without a folder.

    The folder's files are Cargo.toml and Cargo.lock.
    """
    folder = source_dir / ALLOCATORS / allocator
    if not folder.is_dir():
        return ""
    recipes = sorted((source_dir / ALLOCATORS).glob("*.cmake"))
    return _hash_files(source_dir, chain((folder / name for name in PINS), recipes))


def allocator_pin(source_dir: Path, allocator: str) -> AllocatorPin | None:
    """Read from Cargo.lock the package that contains the allocator's source."""
    lock = source_dir / ALLOCATORS / allocator / "Cargo.lock"
    if not lock.is_file():
        return None
    for block in lock.read_text(encoding="utf-8").split("[[package]]"):
        fields = dict(re.findall(r'^(\w+) = "([^"]*)"$', block, re.MULTILINE))
        if fields.get("name", "").endswith("malloc-sys"):
            return AllocatorPin(fields["name"], fields["version"], fields.get("checksum", ""))
    raise BuildError(f"{lock} pins no crate of an allocator")


def recipe_id(
    *,
    source: str,
    options: Mapping[str, str],
    allocator: str,
    pin: str,
    compiler: str,
    build_type: str,
    programs: Sequence[str] = (),
) -> str:
    """Return the first 12 hex digits of the hash. `programs` are those of an artifact that has only some."""
    parts = [_SCHEMA, source, sorted(options.items()), allocator, pin, compiler, build_type]
    return _digest([*parts, *([sorted(programs)] if programs else [])])


def build_id(recipe: str, inputs: Mapping[str, str]) -> str:
    """Return the id of a recipe and the digests of the system files that it reads (ninja.input_sums)."""
    return _digest([_SCHEMA, recipe, sorted(inputs.items())])


def allocator_key(pin: str, toolchain: str) -> str:
    """Return the key of an allocator's own build; empty for an allocator without a pin."""
    return _digest([_SCHEMA, pin, toolchain]) if pin else ""


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:ID_LENGTH]


def _hash_files(root: Path, files: Iterator[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BuildError(f"cannot read {path}: {error.strerror}") from error
        if data.startswith(LFS_POINTER):
            raise BuildError(
                f"{path} is a pointer of Git LFS, not the file itself",
                "git lfs install && git lfs pull",
                of_machine=True,
            )
        name = path.relative_to(root).as_posix()
        digest.update(os.fsencode(f"{name}\0{len(data)}\0"))  # a name need not be UTF-8
        digest.update(data)
    return digest.hexdigest()
