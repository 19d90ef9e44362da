"""ELF files of this machine and of others, and allocators that are linked into a program."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from perfrunner.servers.checks import preload_problem, program_problem
from perfrunner.servers.preload import defines, find_library, linked_allocator, read_elf
from perfrunner.spec.server import ServerSpec


def elf(machine: int, *, loaded: bool = True, more: bytes = b"") -> bytes:
    """A file of 64 bits with one program header."""
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<I", 3 if loaded else 1) + bytes(52) + more


def loaded_by(loader: bytes) -> bytes:
    """A file for this machine that names its loader."""
    here = bytearray(Path("/proc/self/exe").read_bytes()[:64])
    struct.pack_into("<Q", here, 32, 64)
    struct.pack_into("<HH", here, 54, 56, 1)
    size = len(loader) + 1
    return bytes(here) + struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, size, size, 1) + loader + b"\0"


@pytest.fixture
def program(tmp_path: Path):
    def write(content: bytes) -> Path:
        path = tmp_path / "server"
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    return write


def test_the_functions_that_a_library_brings():
    """A use of another library's function is no definition."""
    libc = find_library("glibc")
    assert defines(libc, b"malloc")
    assert not defines(libc, b"mallo")
    assert not defines(libc, b"_rtld_global"), "the loader's"


def test_a_program_of_this_machine_is_loaded_dynamically():
    results = read_elf(Path(sys.executable).resolve())
    assert results is not None
    assert results.loaded
    assert program_problem(sys.executable) is None


def test_a_program_for_another_machine_is_refused(program):
    path = program(elf(183 if read_elf(Path("/proc/self/exe")).machine != "aarch64" else 62))
    assert "expected a program for this machine" in (program_problem(str(path)) or "")


def test_a_script_is_no_elf_file(program):
    path = program(b"#!/bin/sh\nexec true\n")
    assert read_elf(path) is None
    assert program_problem(str(path)) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"#!/no/such/sh\nexec true\n", "'/no/such/sh', which is not on this machine"),
        (b"#!/bin/sh\r\nexec true\r\n", r"'/bin/sh\r', which is not on this machine"),
        (b"#! /no/such/env python3", "'/no/such/env', which is not on this machine"),
        (loaded_by(b"/lib/ld-other.so.1"), "'/lib/ld-other.so.1', which is not on this machine"),
        (b"\x7fFLE\0\x01\x02", "neither an ELF file nor a script"),
        (b"", "is empty"),
    ],
)
def test_a_program_that_nothing_here_can_start(program, content: bytes, expected: str):
    """The system says "no such file" of the program, which is there."""
    assert expected in (program_problem(str(program(content))) or "")


@pytest.mark.parametrize("content", [b"#!/bin/sh -e\ntrue\n", b"#!  /bin/sh\n", b"exec true\n"])
def test_a_script_that_is_started(program, content: bytes):
    assert program_problem(str(program(content))) is None


def test_a_program_must_be_there_and_executable(program):
    path = program(b"#!/bin/sh\n")
    path.chmod(0o644)
    assert "not executable" in (program_problem(str(path)) or "")
    assert "there is no" in (program_problem(str(path) + "x") or "")
    assert "is a directory" in (program_problem(str(path.parent)) or "")


@pytest.mark.parametrize(
    ("mark", "allocator"),
    [(b"<jemalloc>: ", "jemalloc"), (b"mimalloc: error: ", "mimalloc"), (b"nothing", None)],
)
def test_an_allocator_that_is_linked_in_is_recognized(program, mark: bytes, allocator: str | None):
    path = program(elf(62, more=b"\0" * 100 + mark))
    assert linked_allocator(path) == allocator
    server = ServerSpec(command=[str(path), "{port}"], kind="redis")
    problem = preload_problem(path, server)
    if allocator is None:
        assert problem is None
    else:
        assert allocator in (problem or "")
        assert "MALLOC=libc" in (problem or "")


def test_a_preload_has_no_effect_on_a_static_program(program):
    path = program(elf(62, loaded=False))
    problem = preload_problem(path, ServerSpec(command=[str(path), "{port}"]))
    assert "linked statically" in (problem or "")
