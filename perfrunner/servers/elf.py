"""Read what an ELF file says of itself: the machine it is for, and whether the dynamic loader starts it."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {
    3: "i386", 8: "mips", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64",
    243: "riscv64",
}  # fmt: skip
_INTERP = 3  # type of the program header that names the loader
# Texts that an allocator brings into the program that it is linked into, but that nobody else has.
ALLOCATOR_MARKS = {
    "jemalloc": b"<jemalloc>: ",
    "mimalloc": b"mimalloc: error: ",
    "tcmalloc": b"TCMALLOC_SAMPLE_PARAMETER",
}


@dataclass(frozen=True)
class ElfFile:
    """machine: `uname -m` of the systems that it runs on. loaded: whether the dynamic loader starts it."""

    machine: str
    bits: int
    loaded: bool


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
    kinds = [
        struct.unpack_from(f"{order}I", headers, at)[0]
        for at in range(0, len(headers) - 3, size or 1)
    ]
    machine = _MACHINES.get(number, f"machine {number}")
    return ElfFile(machine, bits, _INTERP in kinds)


def linked_allocator(path: Path) -> str | None:
    """Return the allocator that is linked statically into a program; None if none is recognised."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return next(
                (name for name, mark in ALLOCATOR_MARKS.items() if content.find(mark) >= 0), None
            )
