"""A synthetic experiment, stored once for all tests of the reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import synthetic

from perfrunner.report import build_report
from perfrunner.results import ResultStore


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The directory of a store with a whole experiment: 3 variants, 2 x 2 cases, 8 blocks, a discarded."""
    directory = tmp_path_factory.mktemp("demo")
    synthetic.write(directory)
    return directory


@pytest.fixture(scope="session")
def data(demo):
    return load(demo)


@pytest.fixture(scope="session")
def report(data):
    return build_report(data)


@pytest.fixture
def make(tmp_path):
    """make(blocks=..., ...) stores another experiment and gives its data."""

    def build(experiment_id="demo-20261120", **shape):
        synthetic.write(tmp_path, synthetic.Shape(**shape), experiment_id)
        return load(tmp_path, experiment_id)

    return build


def load(directory, experiment_id=None):
    with ResultStore.open(directory, create=False) as store:
        return store.load(store.resolve(experiment_id).id)
