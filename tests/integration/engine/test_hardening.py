"""How the artifact's programs are linked, as readelf tells it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)"),
]


def readelf(flag: str, program: Path) -> str:
    command = ["readelf", "--wide", flag, str(program)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["kv_engine", "pillowfight", "kvctl"])
def test_programs_move_and_have_no_writable_relocations(name: str, kv_engine: Path) -> None:
    program = kv_engine.parent / name
    assert "DYN (Position-Independent Executable file)" in readelf("--file-header", program)
    dynamic = readelf("--dynamic", program)
    assert "BIND_NOW" in dynamic
    assert "PIE" in dynamic
    segments = readelf("--program-headers", program)
    assert "GNU_RELRO" in segments
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack, "the stack is executable"


def test_calls_of_the_c_library_are_checked(kv_engine: Path) -> None:
    symbols = readelf("--dyn-syms", kv_engine)
    if "__asan_init" in symbols:
        pytest.skip("the sanitizer checks them itself")
    assert "_chk@" in symbols
