"""The synthetic experiment of the unit tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "report"))
import synthetic

from perfrunner.report import build_report, write_html
from perfrunner.results import ResultStore


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The HTML report of a synthetic experiment, as a file."""
    directory = tmp_path_factory.mktemp("page")
    experiment = synthetic.write(directory)
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    return write_html(build_report(data), data, directory / "report.html")
