"""The scratch repository and an empty cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(
    0, str(Path(__file__).parent)
)  # importlib mode: scratch_repo.py is not in a package

from scratch_repo import Repo, copied, make_repo


@pytest.fixture(scope="session")
def made_repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return make_repo(tmp_path_factory.mktemp("made") / "repo")


@pytest.fixture
def repo(made_repo: Repo, tmp_path: Path) -> Repo:
    return copied(made_repo, tmp_path / "repo")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
