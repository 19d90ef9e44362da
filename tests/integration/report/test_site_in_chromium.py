"""The site in a real browser: what a run was built from on hover, its report on a click, and no axe violation."""

from __future__ import annotations

import re

import pytest
import synthetic_nights
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from synthetic_nights import LOST, TITLE

from perfrunner.report.numbers import DIVIDE_SIGN, TIMES_SIGN
from perfrunner.report.site import write_site

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PAGES = ("index.html", "spec-nightly.html", "variant-glibc.html", "host-*.html")


@pytest.fixture
def visit(browser, site):
    """visit(page, scheme, width) opens a page of the site; what went wrong in it is in `.log`."""
    contexts = []

    def open_page(name, scheme="light", width=1200):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.log = []
        tab.on("pageerror", lambda error: tab.log.append(str(error)))
        tab.on("requestfailed", lambda request: tab.log.append(request.url))
        (path,) = site.glob(name)
        tab.goto(path.as_uri(), wait_until="load")
        return tab

    yield open_page
    for context in contexts:
        context.close()


def place_of(plot, run):
    """Where a run's point is on the screen."""
    return plot.evaluate(
        """(box, run) => {
            const data = box.chart.getOption().series[0].data;
            const p = box.chart.convertToPixel({ seriesIndex: 0 }, data[run].value);
            const r = box.getBoundingClientRect(); return [r.x + p[0], r.y + p[1]]; }""",
        run,
    )


def test_hovering_a_run_tells_its_build_and_commit_and_a_click_opens_its_report(visit):
    tab = visit("spec-nightly.html")
    plot = tab.locator(".plot").first
    expect(plot.locator("svg")).to_have_count(1)
    plot.scroll_into_view_if_needed()
    tab.mouse.move(*place_of(plot, LOST))
    for output in ("nightly-12", "build b1", f"commit {'c' * 12}", TITLE, "worse from here on"):
        expect(plot).to_contain_text(output)
    tab.mouse.move(*place_of(plot, LOST - 1))
    expect(plot).to_contain_text(f"commit {'b' * 12}")
    tab.mouse.click(*place_of(plot, 13))
    expect(tab.get_by_text("night 13")).to_be_visible()
    assert tab.log == []


def test_the_index_is_searched(visit):
    tab = visit("index.html")
    rows = tab.locator(".experiments tbody tr:visible")
    assert rows.count() == 20
    tab.locator("#search").fill("nightly-13")
    expect(rows).to_have_count(1)
    assert tab.url.endswith("#nightly-13")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("dark", 1200),
        *(
            pytest.param(scheme, width, marks=pytest.mark.long)
            for scheme in ("light", "dark")
            for width in (390, 800, 1400, 2400)
        ),
    ],
)
def test_axe_finds_no_violation(visit, scheme, width):
    results = []
    for name in PAGES:
        tab = visit(name, scheme, width)
        if name.startswith("spec"):
            expect(tab.locator(".plot svg").first).to_be_visible()
        results += [
            (name, v["id"], v["nodes"][0]["html"][:200])
            for v in Axe().run(tab).response["violations"]
        ]
    assert results == []


def test_the_keys_go_from_run_to_run_and_open_a_report(visit):
    tab = visit("spec-nightly.html")
    tab.locator(".plot").first.focus()
    for run in range(14):
        tab.keyboard.press("ArrowRight")
        expect(tab.locator("#announcement")).to_contain_text(f"nightly-{run:02d}")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("night 13")).to_be_visible()
    assert tab.log == []


def test_the_history_says_which_colour_is_which_variant(visit):
    tab = visit("spec-nightly.html")
    figure = tab.locator("#history-charts figure").first
    expect(figure.locator(".legend")).to_have_text("jemalloc-5.1.0")
    mark = figure.locator(".mark path").evaluate(
        "e => [e.getAttribute('fill'), e.getAttribute('d')]"
    )
    colour, symbol = figure.locator(".plot").first.evaluate(
        "b => { const s = b.chart.getOption().series[0]; return [s.itemStyle.color, s.symbol]; }"
    )
    assert mark == [colour, symbol.removeprefix("path://")]


def test_no_line_leads_from_one_level_to_the_next(visit):
    tab = visit("spec-nightly.html")
    levels = tab.locator(".plot").first.evaluate("b => b.chart.getOption().series[1].data")
    drawn = [value is not None for _, value in levels]
    assert drawn == [True, True, False, True, True, False]  # two levels, with a gap after each
    assert levels[1][1] > 0 > levels[3][1]


def test_each_run_has_its_interval(visit):
    tab = visit("spec-nightly.html")
    runs, bars = tab.locator(".plot").first.evaluate(
        "b => ['scatter', 'custom'].map(t => b.chart.getOption().series.find(s => s.type === t).data)"
    )
    assert len(bars) == len(runs) > 10
    for run, (_, low, high) in zip(runs, bars, strict=True):
        assert low < run["value"][1] < high
    assert re.search(r"\[.*, .*\]", runs[0]["tip"])


@pytest.mark.long
def test_a_telephone_shows_of_each_run_when_what_and_how_it_ended(visit):
    tab = visit("index.html", width=390)
    row = tab.locator(".experiments tbody tr").first
    assert "12 trials" in row.locator("td").nth(4).evaluate(
        "e => e.textContent + getComputedStyle(e, '::after').content.replaceAll('\"', '')"
    )
    for case in row.locator("th, td").all():
        box = case.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_a_percent_sign_in_the_address_is_searched_for(browser, site):
    tab = browser.new_page()
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((site / "index.html").as_uri() + "#50%", wait_until="load")
    assert tab.locator("#search").input_value() == "50%"
    tab.close()
    assert errors == []


@pytest.mark.long
def test_a_history_of_large_factors_is_drawn_as_factors(browser, tmp_path):
    """A loss from a 36,200th to a 200th lies flat at minus 100 % of a linear axis."""
    synthetic_nights.write(tmp_path / "store", slower=1 / 36_200, then=1 / 200)
    write_site([tmp_path / "store"], tmp_path / "site")
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    tab = context.new_page()
    tab.goto((tmp_path / "site" / "spec-nightly.html").as_uri(), wait_until="load")
    plot = tab.locator(".plot").first
    kind, tips = plot.evaluate("""b => { const o = b.chart.getOption(); return [o.yAxis[0].type,
        o.series.filter(s => s.type === 'scatter').flatMap(s => s.data.map(d => d.tip))]; }""")
    labels = [
        t
        for t in plot.locator("svg text").all_text_contents()
        if t and t[0] in TIMES_SIGN + DIVIDE_SIGN
    ]
    context.close()
    assert kind == "log"
    assert len(labels) >= 3
    assert "÷" in tips[0]
    assert "[" in tips[0]
    assert tips[0].split("÷")[1][:3] != tips[-1].split("÷")[1][:3]
