"""The synthetic experiments of the unit tests, and a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "report"))
import synthetic
import synthetic_nights

from perfrunner.report import build_report, write_html
from perfrunner.report.site import write_site
from perfrunner.results import ResultStore

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=90_000)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The HTML report of a synthetic experiment, as a file."""
    directory = tmp_path_factory.mktemp("page")
    experiment = synthetic.write(directory)
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The directory of a site over nights of one spec."""
    store = tmp_path_factory.mktemp("nights")
    synthetic_nights.write(store)
    directory = tmp_path_factory.mktemp("site")
    write_site([store], directory)
    return directory
