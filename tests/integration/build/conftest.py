"""A tiny engine that is really compiled, and an empty cache of builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiny_engine import write_engine


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "engine")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cargo_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny engine's jemalloc is a source file."""
    monkeypatch.setattr("perfrunner.build.builder.require_cargo", lambda allocator, env: "cargo 1")
