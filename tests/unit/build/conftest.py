"""The tiny engine and an empty cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode: tiny_engine.py is not in a package

from tiny_engine import write_engine


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "engine")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
