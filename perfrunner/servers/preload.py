"""Preload an allocator: find its library, check that a server has it, and read back its options.

The loader puts a preloaded library before all others, so that its malloc is the one that a dynamically linked program
calls. That holds for glibc as well: preloaded, it wins over an allocator that the program is linked with. A program
that is linked statically, or with an allocator of its own, is recognised by its ELF file.

mimalloc prints all of its options where MIMALLOC_VERBOSE is set, as it is for the settings check only. jemalloc prints
those that it does not take. tcmalloc prints none.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from perfrunner.domain import not_checked
from perfrunner.errors import TrialError, UsageError
from perfrunner.paths import real_path
from perfrunner.spec.allocator import (
    ALLOCATORS,
    GLIBC,
    AllocatorSpec,
    allocator_variables,
    family_of,
    is_crate,
)

_SONAMES = {
    GLIBC: r"libc\.so\.6",
    "jemalloc": r"libjemalloc\.so\.\d+",
    "mimalloc": r"libmimalloc\.so\.[\d.]+",
    "tcmalloc": r"libtcmalloc(_minimal)?\.so\.\d+",
    "snmalloc": r"libsnmallocshim\.so[\d.]*",
}
_PACKAGES = {
    "jemalloc": "libjemalloc2",
    "mimalloc": "libmimalloc2.0 or libmimalloc3",
    "tcmalloc": "libtcmalloc-minimal4",
}
_LDCONFIG = ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig")
_CACHED = re.compile(r"^\s+(\S+) \((.*)\) => (\S+)$", re.MULTILINE)


def find_library(preload: str) -> Path:
    """Return the library of an allocator, or the one at a path. Raises UsageError with what to install."""
    here = read_elf(Path("/proc/self/exe"))
    if preload.startswith("/"):
        path = Path(preload)
        if not path.is_file():
            raise UsageError(f"no library {preload}")
        library = read_elf(path)
        if (
            library is None
            or here is None
            or (library.machine, library.bits) != (here.machine, here.bits)
        ):
            is_for = (
                "no library" if library is None else f"for {library.machine}, {library.bits} bits"
            )
            raise UsageError(f"the library {preload} cannot be loaded here: it is {is_for}")
        return real_path(path)
    if (place := library_in(_loader_cache(), preload)) is not None:
        return real_path(Path(place))
    raise UsageError(f"the loader knows no library of {preload}", how_to_install(preload))


def library_in(cache: str, preload: str) -> str | None:
    """Return the library of an allocator in the output of `ldconfig -p`; None if there is none.

    The loader prefers the library of its own machine, so that one for another (32 bits) comes last.
    """
    pattern = re.compile(_SONAMES[preload])
    matching = [
        (flags.count(",") == 0, place)
        for soname, flags, place in _CACHED.findall(cache)
        if pattern.fullmatch(soname)
    ]
    return min(matching, key=lambda entry: entry[0])[1] if matching else None


def how_to_install(preload: str) -> str:
    """Return what to do where the loader knows no library of an allocator."""
    pinned = [name for name in ALLOCATORS if is_crate(name) and family_of(name) == preload]
    ways = [
        *([f"apt-get install {_PACKAGES[preload]}"] if preload in _PACKAGES else []),
        *([f"preload {pinned[-1]}, which perfrunner builds"] if pinned else []),
        "name the library's path",
    ]
    return ", or ".join(ways)


def check_maps(maps: str, library: str, what: str) -> None:
    """Raise TrialError unless the text of /proc/PID/maps has the library."""
    if not any(line.endswith(f" {library}") for line in maps.splitlines()):
        raise TrialError(
            f"{what} runs without the preloaded {library}",
            hint="the loader ignores preloads for statically linked and set-user-id programs",
        )


def check_first(preload: Mapping[str, object], library: str, what: str) -> None:
    """Raise TrialError if a server has the library without calling it, as far as `agent.read_preload` tells.

    A library that is mapped may be behind another one, or be there because the server is linked with it.
    """
    first = preload["first"]
    if preload["ignored"]:
        raise TrialError(
            f"{what} ignores the preloaded {library}: the program gains privileges when it starts",
            "give a copy of the program without file capabilities and without its set-user-id bit",
        )
    if first not in (None, library):
        raise TrialError(
            f"{what} preloads {first} first, not {library}"
            if first
            else f"{what} does not preload {library}, though it is linked with it",
            "start the server without a wrapper that changes LD_PRELOAD or removes variables",
        )


def _loader_cache() -> str:
    for program in _LDCONFIG:
        try:
            return subprocess.run(
                [program, "-p"], capture_output=True, text=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
    return ""


Name = TypeVar("Name", bound=str)
_MACHINES = {
    3: "i386", 8: "mips", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64",
    243: "riscv64",
}  # fmt: skip
_INTERP = 3  # type of the program header that names the loader
_LONGEST_PATH = 4096
# Texts that an allocator brings into the program that it is linked into, but that nobody else has.
ALLOCATOR_MARKS = {
    "jemalloc": b"<jemalloc>: ",
    "mimalloc": b"mimalloc: error: ",
    "tcmalloc": b"TCMALLOC_SAMPLE_PARAMETER",
}


@dataclass(frozen=True)
class ElfFile:
    """machine: `uname -m` of the systems that it runs on. loader: the dynamic loader that starts it; None: none."""

    machine: str
    bits: int
    loader: str | None

    @property
    def loaded(self) -> bool:
        """Tell whether a dynamic loader starts it."""
        return self.loader is not None


def read_elf(path: Path) -> ElfFile | None:
    """Return what the file says of itself; None if it is no ELF file, such as a script. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 52 or head[:4] != b"\x7fELF":
            return None
        bits, order = (64 if head[4] == 2 else 32), ("<" if head[5] == 1 else ">")
        (number,) = struct.unpack_from(f"{order}H", head, 18)
        if bits == 64:
            (offset,) = struct.unpack_from(f"{order}Q", head, 32)
            size, count = struct.unpack_from(f"{order}HH", head, 54)
        else:
            (offset,) = struct.unpack_from(f"{order}I", head, 28)
            size, count = struct.unpack_from(f"{order}HH", head, 42)
        file.seek(offset)
        headers = file.read(size * count)
        loader = None
        for at in range(0, len(headers) - 39 if bits == 64 else len(headers) - 19, size or 1):
            if struct.unpack_from(f"{order}I", headers, at)[0] == _INTERP:
                place, length = (
                    struct.unpack_from(f"{order}Q16xQ", headers, at + 8)
                    if bits == 64
                    else struct.unpack_from(f"{order}I8xI", headers, at + 4)
                )
                file.seek(place)
                loader = os.fsdecode(file.read(min(length, _LONGEST_PATH)).rstrip(b"\0"))
    return ElfFile(_MACHINES.get(number, f"machine {number}"), bits, loader)


_DYNAMIC_SYMBOLS = 11  # type of the section with the names that the loader binds


def defines(path: Path, name: bytes) -> bool:
    """Return whether a library of this machine (64 bits, little endian) exports a symbol. Raises OSError."""
    data = path.read_bytes()
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + at * size) for at in range(count)]
    for _, kind, _, _, start, length, link, _, _, entry in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[link][4]
        for at in range(start, start + length, entry):
            text, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section and data.startswith(name + b"\0", names + text):
                return True
    return False


def linked_allocator(path: Path) -> str | None:
    """Return the allocator that is linked statically into a program; None if none is recognised."""
    return marked(path, ALLOCATOR_MARKS)


def marked(path: Path, marks: Mapping[Name, bytes]) -> Name | None:
    """Return the first name whose mark is in a file; None if there is none. Raises OSError."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return next((name for name, mark in marks.items() if content.find(mark) >= 0), None)


_MIMALLOC_OPTION = re.compile(r"^(?:mimalloc: )?option '(\w+)': (-?\d+)", re.MULTILINE)
_MIMALLOC_RENAMED = re.compile(
    r'^mimalloc: warning: .*"mimalloc_(\w+)" is deprecated -- use "mimalloc_(\w+)"', re.MULTILINE
)
_MIMALLOC_REFUSED = re.compile(
    r"^mimalloc: warning: .*\bmimalloc_(\w+)\b.* has an invalid value", re.MULTILINE
)
_JEMALLOC_REFUSED = re.compile(
    r"^<jemalloc>: (?:Invalid conf pair|(?:Invalid|Out-of-range) conf value|Invalid settings for \w+): (.*)$",
    re.MULTILINE,
)
_OF_MIMALLOC = "MIMALLOC_"  # begins the variable of each option
# mi_option_has_size_in_kib (src/options.c of mimalloc 3): read in bytes or with a unit, printed in KiB, rounded up.
_IN_KIB = ("reserve_os_memory", "arena_reserve", "minimal_purge_size", "arena_max_object_size")
_SIZE = re.compile(r"(\d+)(?:([kmgt])(?:i?b)?)?")
_TRUTHS = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}


def asking(allocator: AllocatorSpec) -> dict[str, str]:
    """Return the environment in which the allocator prints its options."""
    return {"MIMALLOC_VERBOSE": "1"} if allocator.preload_family == "mimalloc" else {}


def read_back(allocator: AllocatorSpec, env: Mapping[str, str], log: str) -> dict[str, str]:
    """Return the options by `env.` and the variable; those that cannot be read are marked as not checked.

    `env` is the variant's own, whose variables may be of an allocator that the server is linked with; `log` is what
    the server printed. Raises ValueError for an option that the allocator does not take.
    """
    asked = {**allocator_variables(env), **allocator.preload_environment}
    read = {f"env.{name}": not_checked(value, None) for name, value in asked.items()}
    of_jemalloc = any(name.endswith("MALLOC_CONF") for name in asked)
    if of_jemalloc and (refused := _JEMALLOC_REFUSED.findall(log)):
        raise ValueError(f"jemalloc does not take {', '.join(refused)}")
    printed = dict(_MIMALLOC_OPTION.findall(log))
    if allocator.preload_family != "mimalloc" or not printed:
        return read
    if refused := _MIMALLOC_REFUSED.findall(log):
        raise ValueError(f"mimalloc does not take the value of {', '.join(refused)}")
    renamed = dict(_MIMALLOC_RENAMED.findall(log))
    variables = {
        name.removeprefix(_OF_MIMALLOC).lower(): value
        for name, value in env.items()
        if name.startswith(_OF_MIMALLOC)
    }
    for option, value in {**variables, **allocator.options}.items():
        current = renamed.get(option, option)
        reported = printed.get(current)
        if reported is None:
            raise ValueError(f"this mimalloc has no option {option}; it has {', '.join(printed)}")
        if not _is(value, reported, size=current in _IN_KIB):
            raise ValueError(f"mimalloc has {option} {reported}, not {value}")
        read[f"env.{_OF_MIMALLOC}{option.upper()}"] = reported
    return read


def _is(asked: str, printed: str, *, size: bool) -> bool:
    plain: Mapping[str, str] = _TRUTHS
    if size and (written := _SIZE.fullmatch(asked.lower())):
        number, unit = written.groups(default="")
        return printed == str(math.ceil(int(number) * 1024 ** " kmgt".index(unit or " ") / 1024))
    return plain.get(asked.lower(), asked) == printed
