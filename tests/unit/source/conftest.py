"""The scratch repository and an empty cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(
    0, str(Path(__file__).parent)
)  # importlib mode: scratch_repo.py is not in a package

from scratch_repo import Repo, make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
