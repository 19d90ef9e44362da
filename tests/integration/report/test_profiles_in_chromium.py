"""The page's flame graphs in a real browser: a click widens a box, and variants that are not chosen go."""

from __future__ import annotations

from dataclasses import replace

import pytest
import synthetic
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from perfrunner.measure.cpu_profile import Folded
from perfrunner.report import build_report, write_html
from perfrunner.results import ResultStore

pytestmark = [pytest.mark.integration, pytest.mark.slow]
STACKS = {
    "glibc": {("fe", "kv::run", "kv::set", "malloc"): 60, ("fe", "kv::run", "kv::get"): 40},
    "jemalloc-5.1.0": {("fe", "kv::run", "kv::set"): 20, ("fe", "kv::run", "kv::get"): 80},
}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    directory = tmp_path_factory.mktemp("profiled")
    experiment = synthetic.write(directory, synthetic.Shape(blocks=3, discarded_block=None))
    with ResultStore.open(directory, create=False) as store:
        data = store.load(experiment)

    def recorded(trial):
        if trial.variant not in STACKS or trial.case != ("pillowfight", "persistent"):
            return trial
        path = directory / trial.raw_dir / "profile.folded"
        path.write_text(Folded(STACKS[trial.variant]).text())
        taken = {"event": "cpu-clock", "frequency": 499, "samples": 100, "cut_short": False}
        return replace(trial, facts={**trial.facts, "profile": taken})

    data = replace(data, trials=tuple(map(recorded, data.trials)))
    return write_html(build_report(data), data, directory / "report.html")


@pytest.fixture
def tab(browser, profiled):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    opened.errors = []
    opened.on("console", lambda message: opened.errors.append(message.text))
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.goto(profiled.as_uri(), wait_until="load")
    yield opened
    assert opened.errors == []
    context.close()


def width(box):
    return box.locator("rect").bounding_box()["width"]


def test_a_click_widens_a_box_and_one_on_the_lowest_shows_all_again(tab):
    graph = tab.locator("svg.flame").first
    graph.scroll_into_view_if_needed()
    lowest, taken, read, callee = (
        graph.locator("g", has=tab.locator("title", has_text=f"{name}: baseline"))
        for name in ("all", "kv::set", "kv::get", "malloc")
    )
    assert width(taken) / width(lowest) == pytest.approx(0.4, abs=0.02)
    taken.click()
    assert width(taken) == pytest.approx(width(lowest), rel=0.02)
    assert width(callee) / width(lowest) == pytest.approx(0.75, abs=0.02)
    expect(read).to_be_hidden()
    expect(callee.locator("text")).to_have_text("malloc")
    lowest.click()
    expect(read).to_be_visible()
    assert width(taken) / width(lowest) == pytest.approx(0.4, abs=0.02)


@pytest.mark.long
def test_a_variant_that_is_not_chosen_has_no_graph(tab):
    figure = tab.locator("figure[data-profile]")
    expect(figure).to_be_visible()
    tab.get_by_label("jemalloc-5.1.0", exact=True).first.uncheck()
    expect(figure).to_be_hidden()


@pytest.mark.long
def test_it_can_be_read_by_everybody(tab):
    tab.locator("details:has(svg.flame) summary").click()
    matches = Axe().run(tab, context="section[aria-labelledby=explained]")
    assert matches.violations_count == 0, matches.generate_report()
