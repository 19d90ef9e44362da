"""The synthetic experiments of the unit tests, and a browser."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "report"))
import synthetic
import synthetic_nights
import synthetic_slices

from perfrunner.analysis.noise import NoiseFloor
from perfrunner.report import build_report, write_html
from perfrunner.report.site import write_site
from perfrunner.results import ResultStore

PATIENCE_MS = 300_000  # only ends a test that hangs
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests of a worker; each test has a context of its own."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        pytest.skip("the system's packages have no Chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=FLAGS, timeout=PATIENCE_MS
        )
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
def three_metrics(tmp_path_factory):
    """The HTML report of a synthetic experiment with three primary metrics."""
    directory = tmp_path_factory.mktemp("three")
    experiment = synthetic.write(directory, synthetic.Shape(blocks=6, discarded_block=None))
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    primary = ["ops_per_s", "fragmentation_rss", "fragmentation_rss_settled"]
    spec = {**data.experiment.spec_json, "primary": primary}
    data = replace(data, experiment=replace(data.experiment, spec_json=spec))
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture(scope="session")
def rounds_page(tmp_path_factory):
    """The HTML report of a synthetic experiment whose variants took turns, some slices many times longer than
    others."""
    directory = tmp_path_factory.mktemp("rounds")
    experiment = synthetic_slices.write(directory, synthetic_slices.Shape(stall=0.1))
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture(scope="session")
def churned_page(tmp_path_factory):
    """The HTML report of a synthetic experiment whose items were deleted and stored again."""
    directory = tmp_path_factory.mktemp("churned")
    experiment = synthetic.write(directory, synthetic.Shape(blocks=2, discarded_block=None))
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    course = [[0.0, 1e6], [1.0, 9e6], [2.0, 4e6], [3.0, 8e6]]
    facts = {"rss_over_time": course, "churn_ends": [1.0, 2.0, 3.0]}
    trials = tuple(replace(t, facts={**t.facts, **facts}) for t in data.trials)
    data = replace(data, trials=trials)
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture(scope="session")
def two_groups(tmp_path_factory):
    """The HTML report of variants that ran in two groups a block, each next to its own baseline; and the report."""
    directory = tmp_path_factory.mktemp("groups")
    first, second = synthetic_slices.VARIANTS[1:]
    experiment = synthetic_slices.write(
        directory, synthetic_slices.Shape(groups=((first,), (second,)))
    )
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    report = build_report(data)
    return write_html(report, data, directory / "report.html"), report


@pytest.fixture(scope="session")
def large_factor(tmp_path_factory):
    """The HTML report of an experiment whose last variant is 36,200 times slower."""
    directory = tmp_path_factory.mktemp("large")
    shape = synthetic.Shape(blocks=6, discarded_block=None, workloads=("pillowfight",), sd=0.0001)
    experiment = synthetic.write(directory, shape)
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    base = {
        (t.block, t.bucket): t.metrics["ops_per_s"] for t in data.trials if t.variant == "glibc"
    }
    trials = tuple(
        replace(t, metrics={**t.metrics, "ops_per_s": base[t.block, t.bucket] / 36_200})
        if t.variant == synthetic.VARIANTS[2]
        else t
        for t in data.trials
    )
    data = replace(data, trials=trials)
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture(scope="session")
def many_variants(tmp_path_factory):
    """The HTML report of a synthetic experiment of twelve variants on a host whose noise floor is known."""
    directory = tmp_path_factory.mktemp("dozen")
    variants = ("glibc", *(f"variant-{n}" for n in range(1, 12)))
    shape = synthetic.Shape(
        variants=variants, blocks=6, discarded_block=None, workloads=("pillowfight",)
    )
    experiment = synthetic.write(directory, shape)
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)
    report = build_report(data)
    known = {"kind": "ratio", "floor": 0.012, "blocks": 10, "source": "aa", "measured_at": "2026"}
    floors = tuple(
        NoiseFloor(workload=case.workload, bucket=case.bucket, metric="ops_per_s", **known)
        for case in report.comparison.cases
    )
    return write_html(replace(report, noise=floors), data, directory / "report.html")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The directory of a site over nights of one spec."""
    store = tmp_path_factory.mktemp("nights")
    synthetic_nights.write(store)
    directory = tmp_path_factory.mktemp("site")
    write_site([store], directory)
    return directory


@pytest.fixture
def visit(browser, page):
    """visit(width, scheme) opens the report; what it logged and asked for is in `.log`."""
    contexts = []

    def open_page(width=1200, scheme="light", state="", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
        )  # fmt: skip
        contexts.append(context)
        tab = context.new_page()
        tab.log = []
        tab.on("console", lambda message: tab.log.append(f"console {message.type}: {message.text}"))
        tab.on("pageerror", lambda error: tab.log.append(f"error: {error}"))
        tab.on("requestfailed", lambda request: tab.log.append(f"failed: {request.url[:200]}"))
        tab.on("request", lambda request: tab.log.append(f"request: {request.url[:200]}"))
        tab.goto(page.as_uri() + (f"#{state}" if state else ""), wait_until="load")
        return tab

    yield open_page
    for context in contexts:
        context.close()
