"""What an engine says of its allocator is what it runs with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WRAPPER = """
#include <stddef.h>
void *__libc_malloc(size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
"""


@pytest.fixture
def preloaded(tmp_path: Path) -> Path:
    """A library with a malloc of its own."""
    source, library = tmp_path / "wrapper.c", tmp_path / "libothermalloc.so.1"
    source.write_text(WRAPPER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def allocator_name(kv_engine: Path, port: int) -> str:
    kvctl = [
        kv_engine.with_name("kvctl"),
        "--host=127.0.0.1",
        f"--port={port}",
        "stat",
        "allocator",
    ]
    stat = subprocess.run(kvctl, check=True, capture_output=True, text=True)
    return str(json.loads(stat.stdout)["allocator"]["name"])


def test_a_preloaded_malloc_is_not_called_the_systems(
    kv_engine: Path,
    start_engine: Callable[..., Any],
    preloaded: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LD_PRELOAD of a shell never reaches an engine, but /etc/ld.so.preload reaches all programs of a host."""
    assert allocator_name(kv_engine, start_engine().port) == "system"
    monkeypatch.setenv("LD_PRELOAD", str(preloaded))
    other = start_engine("--data-dir", str(preloaded.parent / "other"))
    assert allocator_name(kv_engine, other.port) == "malloc of libothermalloc.so.1"
