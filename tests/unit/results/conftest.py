"""A store in an empty directory, and an archive of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perfrunner.results import ResultStore
from perfrunner.results.transfer import write_archive
from tests.support.archived_run import RUN, fill


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "out") as opened:
        yield opened


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results directory of the archived run."""
    directory = tmp_path_factory.mktemp("here")
    with ResultStore.open(directory) as store:
        fill(store)
        write_archive(store, RUN, directory / "run.zip")
    return directory


@pytest.fixture
def archive(here: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(here / "run.zip", tmp_path))
