"""A store in an empty directory."""

from __future__ import annotations

import pytest

from perfrunner.results import ResultStore


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "out") as opened:
        yield opened
