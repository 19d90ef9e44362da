"""Find the library of an allocator that is preloaded, and check that a running server has it.

The loader puts a preloaded library before all others, so that its malloc is the one that a dynamically linked program
calls. That holds for glibc as well: preloaded, it wins over an allocator that the program is linked with.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from perfrunner.errors import TrialError, UsageError
from perfrunner.servers.elf import read_elf
from perfrunner.spec.allocator import GLIBC

VARIABLE = "LD_PRELOAD"
_SONAMES = {
    GLIBC: r"libc\.so\.6",
    "jemalloc": r"libjemalloc\.so\.\d+",
    "mimalloc": r"libmimalloc\.so\.[\d.]+",
    "tcmalloc": r"libtcmalloc(_minimal)?\.so\.\d+",
    "snmalloc": r"libsnmallocshim\.so[\d.]*",
}
_PACKAGES = {
    "jemalloc": "libjemalloc2",
    "mimalloc": "libmimalloc2.0",
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
        return path.resolve()
    if (place := library_in(_loader_cache(), preload)) is not None:
        return Path(place).resolve()
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
    package = _PACKAGES.get(preload)
    hint = f"apt-get install {package}" if package else "install it and run ldconfig"
    return f"{hint}, or name the library's path"


def check_maps(maps: str, library: str, what: str) -> None:
    """Raise TrialError unless the text of /proc/PID/maps has the library."""
    if not any(line.endswith(f" {library}") for line in maps.splitlines()):
        raise TrialError(
            f"{what} runs without the preloaded {library}",
            hint="the loader ignores preloads for statically linked and set-user-id programs",
        )


def _loader_cache(programs: Sequence[str] = _LDCONFIG) -> str:
    for program in programs:
        try:
            return subprocess.run(
                [program, "-p"], capture_output=True, text=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
    return ""
