"""The HTML report in a real browser: no errors, no requests, and what it does by mouse and by keys."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import pytest
from browsing import drawn, report_trials
from playwright.sync_api import expect as playwright_expect

from perfrunner.analysis.cells import clean_blocks
from perfrunner.analysis.drift import drift
from perfrunner.report.numbers import DIVIDE_SIGN, TIMES_SIGN
from perfrunner.spec.metrics import metric_type

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]


def test_it_opens_without_errors_and_asks_for_nothing(visit, page):
    tab = visit()
    outside = [
        e
        for e in tab.log
        if e != f"request: {page.as_uri()}" and not e.startswith("request: data:")
    ]
    assert outside == []
    assert tab.title() == "quickstart · perfrunner report"


def test_the_first_screen_has_sentences_comparison_and_what_was_compared(visit):
    tab = visit(1400)
    assert tab.locator(".sentences li").count() == 2
    for what in (".sentences", ".panels", ".compared"):
        box = tab.locator(what).first.bounding_box()
        assert box["y"] + box["height"] <= 900 + 1, what
    assert tab.locator(".comparison .effects:visible").count() == 2
    assert tab.locator(".comparison tr[data-arm]").count() == 2 * 4 * 2
    phone = visit(390)
    box = phone.locator(".comparison .effects").first.bounding_box()
    assert box["y"] + box["height"] <= 844
    assert phone.locator(".comparison .strip div").first.bounding_box()["width"] >= 60


def test_the_data_is_inside(visit):
    content = json.loads(visit().locator("#data").text_content())
    assert len(content["trials"]) == 99
    assert content["report"]["experiment"] == "demo-20261120"


def test_hovering_a_point_tells_its_trial_and_a_click_keeps_it(visit, page):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first
    place = plot.evaluate("""box => {
        const s = box.chart.getOption().series.findIndex(s => s.type === 'scatter');
        const p = box.chart.convertToPixel({ seriesIndex: s }, box.chart.getOption().series[s].data[2].value);
        const r = box.getBoundingClientRect(); return [r.x + p[0], r.y + p[1]]; }""")
    tab.mouse.move(*place)
    playwright_expect(plot).to_contain_text("block 3")
    tab.mouse.click(*place)
    kept = tab.locator("#trial")
    playwright_expect(kept).to_be_visible()
    assert "pillowfight · persistent, block 3" in kept.inner_text()
    names = kept.locator("p a").all_inner_texts()
    assert names == ["client.json", "samples.jsonl", "all raw data"]  # that are there, and no other
    link = kept.get_by_text("samples.jsonl").get_attribute("href")
    assert link.startswith("demo-20261120/trials/3-")
    assert (page.parent / unquote(link)).is_file()
    assert (page.parent / unquote(kept.get_by_text("all raw data").get_attribute("href"))).is_dir()
    assert "trial=" in tab.url


# A point that has a trial, on the screen: its place, its tip and the trial.
POINT_OF_A_TRIAL = """box => {
    const r = box.getBoundingClientRect(), series = box.chart.getOption().series;
    const s = series.findIndex(s => s.data.some(d => d && d.trial !== undefined));
    const its = s < 0 ? [] : series[s].data.filter(d => d && d.trial !== undefined), d = its[its.length >> 1];
    const at = d ? box.chart.convertToPixel({ seriesIndex: s }, d.value) : [0, 0];
    return [r.x + at[0], r.y + at[1], d ? d.tip : '', d ? d.trial : null]; }"""


@pytest.mark.parametrize(("which", "figure"), [("page", "rates"), ("rounds_page", "rounds")])
def test_a_click_on_rates_and_rounds_opens_the_trial_that_is_told(browser, request, which, figure):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(request.getfixturevalue(which).as_uri(), wait_until="load")
    plot = drawn(tab, figure).locator(".plot").first
    plot.scroll_into_view_if_needed()
    x, y, tip, trial = plot.evaluate(POINT_OF_A_TRIAL)
    assert trial is not None
    block = re.search(r"block (\d+)", tip)[1]
    assert "Click (Enter): its logs and reproduce.sh" in tip
    tab.mouse.move(x, y)
    playwright_expect(plot).to_contain_text(f"block {block}")
    tab.mouse.click(x, y)
    kept = tab.locator("#trial")
    playwright_expect(kept).to_contain_text(f"pillowfight · persistent, block {block}")
    assert re.search("<b>(.*?)</b>", tip)[1] in kept.locator("h3").inner_text()
    assert f"trial={trial}" in tab.url
    tab.get_by_role("button", name="Close").click()
    plot.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    playwright_expect(kept).to_be_visible()
    context.close()


def test_a_trial_of_one_of_two_baselines_of_a_block_is_the_one_that_is_drawn(
    browser, two_ensembles
):
    """The baseline runs in each ensemble of a block: a point of its rates belongs to one of them."""
    path, _ = two_ensembles
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(path.as_uri(), wait_until="load")
    found = drawn(tab, "rates").locator(".plot").first.evaluate(
        """b => b.chart.getOption().series.map(s => s.data.find(d => d && d.trial !== undefined))
            .filter(Boolean).map(d => d.trial)"""
    )  # fmt: skip
    context.close()
    assert len(found) == len(set(found)) == 8 * 4  # blocks, and the arms of two ensembles


# A point of the last series that has one, nearest the middle of the plot, on the screen: its place and its tip.
MIDDLE_POINT = """box => {
    const r = box.getBoundingClientRect(), points = box.chart.getOption().series.flatMap((s, n) => s.data
        .filter(d => d && d.tip).map(d => ({ tip: d.tip, at: box.chart.convertToPixel({ seriesIndex: n }, d.value) })));
    const off = p => Math.hypot(p.at[0] - r.width / 2, p.at[1] - r.height / 2);
    const near = points.reduce((a, b) => (off(b) <= off(a) ? b : a));
    return [r.x + near.at[0], r.y + near.at[1], near.tip]; }"""


@pytest.mark.parametrize(
    ("which", "figure"),
    [
        ("page", "trials"), ("page", "fragmentation"), ("page", "rates"), ("page", "memory"),
        ("page", "latency-get"), ("page", "histogram-get"), ("rounds_page", "rounds"), ("rounds_page", "spread"),
        ("many_arms", "noise"),
    ],
)  # fmt: skip
def test_every_kind_of_figure_tells_its_points_by_mouse_and_by_keys(
    browser, request, which, figure
):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(request.getfixturevalue(which).as_uri(), wait_until="load")
    plot = drawn(tab, figure).locator(".plot").first
    plot.scroll_into_view_if_needed()
    x, y, tip = plot.evaluate(MIDDLE_POINT)
    hint = plot.locator("xpath=./div[contains(@style, 'z-index')]")
    tab.mouse.move(x, y)
    playwright_expect(hint).to_be_visible()
    playwright_expect(hint).to_contain_text(re.search("<b>(.*?)</b>", tip)[1].replace("&amp;", "&"))
    tab.mouse.move(2, 2)
    playwright_expect(hint).to_be_hidden()
    plot.focus()
    tab.keyboard.press("ArrowRight")
    playwright_expect(hint).to_be_visible()
    told = hint.inner_text()
    assert tab.locator("#told").text_content().replace(", ", "") == told.replace("\n", "").replace(
        ", ", ""
    )
    tab.keyboard.press("ArrowDown")
    playwright_expect(hint).to_be_visible()
    context.close()


def test_typing_in_the_filter_draws_no_chart_anew(visit):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first.element_handle()
    tab.locator("#filter").fill("rss")
    assert tab.locator("table.results tbody tr:visible").count() > 0
    assert tab.url.endswith("#filter=rss")
    assert plot.evaluate("b => b.isConnected && !b.chart.isDisposed()")


@pytest.mark.parametrize("state", ["metric=toString", "trial=length", "trial=-1"])
def test_an_address_that_names_nothing_shows_everything(visit, state):
    tab = visit(state=state)
    assert [entry for entry in tab.log if entry.startswith("error")] == []
    assert tab.locator("#figure-trials .plot").count() == 4
    assert not tab.locator("#trial").is_visible()


def test_no_arm_chosen_is_no_arm_when_the_address_is_read(visit):
    tab = visit()
    for box in tab.locator("[name=arm]").all():
        box.uncheck()
    again = visit(state=tab.url.split("#")[1])
    assert again.locator("[name=arm]:checked").count() == 0
    assert again.locator("#figure-trials").count() == 0


def test_the_address_is_copied_by_a_button(visit):
    tab = visit(state="log=1")
    tab.get_by_role("button", name="Copy address").click()
    playwright_expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()") == tab.url
    assert tab.url.endswith("#log=1")


def test_every_trial_is_saved_as_csv(visit):
    tab = visit()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save all trials").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert len(rows) == 99
    content = json.loads(tab.locator("#data").text_content())
    first = content["trials"][0]
    assert rows[0]["variant"] == first["variant"]
    assert float(rows[0]["ops_per_s"]) == first["metrics"]["ops_per_s"]


def test_throughput_has_the_phases_of_its_trials(visit):
    tab = visit()
    plot = drawn(tab, "rates").locator(".plot")
    areas = "b => b.chart.getOption().series[0].markArea.data.map(a => a[0].name)"
    assert plot.first.evaluate(areas) == ["populate", "access"]
    assert plot.nth(3).evaluate(areas) == ["load", "update"]
    for words in ("populate", "access"):
        playwright_expect(plot.first).to_contain_text(words)
    tips = plot.first.evaluate("b => b.chart.getOption().series[0].data.map(d => d && d.tip)")
    assert "populate: 2k ops/s over 0.5 s" in tips[0]


def test_rounds_have_a_distribution(browser, rounds_page):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(rounds_page.as_uri(), wait_until="load")
    found = (
        drawn(tab, "spread")
        .locator(".plot")
        .first.evaluate(
            "b => b.chart.getOption().series.map(s => [s.name, s.data.map(d => d.value), s.markLine.data[0].xAxis])"
        )
    )
    context.close()
    assert [name for name, _, _ in found] == [
        "jemalloc-5.1.0",
        "jemalloc-5.1.0,metadata_thp=always",
    ]
    for _, bars, level in found:
        assert [x for x, _ in bars] == [x for x, _ in found[0][1]]  # the same bars for all
        assert 97 <= sum(share for _, share in bars) <= 100
        assert bars[0][0] < level < bars[-1][0]


def test_the_arrow_keys_go_from_trial_to_trial(visit):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first
    plot.focus()
    tab.keyboard.press("ArrowRight")
    told = tab.locator("#told")
    playwright_expect(told).to_contain_text("block 1")
    tab.keyboard.press("ArrowRight")
    playwright_expect(told).to_contain_text("block 2")
    tab.keyboard.press("ArrowDown")
    playwright_expect(told).to_contain_text("jemalloc-5.1.0")
    tab.keyboard.press("Enter")
    playwright_expect(tab.locator("#trial")).to_be_visible()


def test_choosing_arms_cells_and_metrics_changes_everything_and_the_address(visit, page):
    tab = visit()
    tab.locator("[name=arm][value='2']").uncheck()
    tab.locator("[name=cell][value='0']").uncheck()
    tab.locator("#metric").select_option("rss_bytes")
    assert tab.locator("tr[data-arm='2']:visible").count() == 0
    assert tab.locator("tr[data-arm='1']:visible").count() > 0
    assert tab.locator("#figure-trials .plot").count() == 3
    assert "RSS" in tab.locator("#figure-trials figcaption").inner_text()
    state = tab.url.split("#")[1]
    again = visit(state=state)
    assert again.locator("#metric").input_value() == "rss_bytes"
    assert again.locator("#figure-trials .plot").count() == 3
    assert again.locator("tr[data-arm='2']:visible").count() == 0
    again.get_by_role("button", name="Reset").click()
    assert "#" not in again.url
    assert again.locator("tr[data-arm='2']:visible").count() > 0


def test_against_the_baseline_logarithmic_and_in_order_of_time(visit):
    tab = visit(state="relative=1")
    option = """b => { const o = b.chart.getOption();
        return [o.yAxis[0].type, o.yAxis[0].name, o.xAxis[0].name, o.series.map(s => s.name)]; }"""
    plot = drawn(tab, "trials").locator(".plot").first
    kind, unit, x, names = plot.evaluate(option)
    assert (kind, unit, x) == ("value", "% against glibc", "block")
    assert "glibc" not in names
    tab.locator("#relative").uncheck()
    tab.locator("#log").check()
    tab.locator("#time").check()
    kind, unit, x, names = drawn(tab, "trials").locator(".plot").first.evaluate(option)
    assert (kind, x) == ("log", "minutes since the first trial")
    assert "glibc" in names


def test_a_trial_of_a_void_block_is_faint_and_in_no_mean(visit):
    """Block 3 of the first cell is void for one arm's sake: the other arms' first attempts count nowhere."""
    option = """b => b.chart.getOption().series.filter(s => s.type === 'scatter').map(s => [
        s.data.map(d => [d.value[0], d.itemStyle.opacity ?? 1, d.value[1]]), s.markLine.data[0].yAxis])"""
    for data, mean in drawn(visit(), "trials").locator(".plot").first.evaluate(option):
        assert [(block, ink) for block, ink, _ in data if ink < 1] == [(3, 0.35)]
        solid = [y for _, ink, y in data if ink == 1]
        assert len(solid) == 8
        assert mean == pytest.approx(sum(solid) / 8)
    tab = visit(state="relative=1")
    for data, _ in drawn(tab, "trials").locator(".plot").first.evaluate(option):
        assert [block for block, _, _ in data] == list(range(1, 9))


def test_a_trial_is_paired_with_the_baseline_of_its_ensemble(browser, two_ensembles):
    path, report = two_ensembles
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(path.as_uri() + "#relative=1", wait_until="load")
    found = drawn(tab, "trials").locator(".plot").first.evaluate(
        "b => b.chart.getOption().series.filter(s => s.type === 'scatter').map(s => [s.name, s.data.map(d => d.value)])"
    )  # fmt: skip
    context.close()
    cell = report.comparison.cells[0]
    blocks = clean_blocks(report_trials(path))[cell]
    for name, points in found:
        paired = blocks.paired("ops_per_s", report.comparison.baseline, name)
        wanted = {b: 100 * (paired.other[b] / paired.base[b] - 1) for b in paired.base}
        assert dict(points) == pytest.approx(wanted, abs=1e-3)


def test_large_changes_are_factors_whatever_the_scale(visit, browser, large_factor):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    for state in ("relative=1", "relative=1&log=1"):
        tab.goto("about:blank")
        tab.goto(large_factor.as_uri() + "#" + state, wait_until="load")
        plot = drawn(tab, "trials").locator(".plot").first
        kind, unit, tips = (
            plot.evaluate("""b => { const o = b.chart.getOption(); return [o.yAxis[0].type, o.yAxis[0].name,
            o.series.filter(s => s.type === 'scatter').flatMap(s => s.data.map(d => d.tip))]; }""")
        )
        assert (kind, unit) == ("log", "factor against glibc")
        assert len(tips) == 2 * 6
        assert sum("÷36," in tip for tip in tips) == 6
        labels = [
            t
            for t in plot.locator("svg text").all_text_contents()
            if t[0] in TIMES_SIGN + DIVIDE_SIGN
        ]
        assert len(labels) >= 3
        assert f"{TIMES_SIGN}1" in labels
    context.close()


def test_changes_that_are_not_large_are_linear_and_all_there(visit):
    tab = visit(state="relative=1&log=1")
    plot = drawn(tab, "trials").locator(".plot").nth(1)
    kind, counts = plot.evaluate(
        """b => { const o = b.chart.getOption(), points = o.series.filter(s => s.type === 'scatter');
            return [o.yAxis[0].type, points.map(s => s.data.length)]; }"""
    )
    assert (kind, counts) == ("value", [8, 8])


def test_the_mean_of_an_arm_is_drawn_where_it_is(visit):
    """The chart library rounds such lines to two places, unless it is told not to."""
    tab = visit()
    for plot in drawn(tab, "trials").locator(".plot").all():
        found = plot.evaluate("""box => {
            const top = box.getBoundingClientRect().y, dashed = [...box.querySelectorAll('path[stroke-dasharray]')];
            const lines = dashed.map(e => e.getBoundingClientRect().y - top);
            const means = box.chart.getOption().series.filter(s => s.type === 'scatter').map(s => {
                const good = s.data.filter(d => d.itemStyle.opacity === undefined).map(d => d.value[1]);
                return good.reduce((a, b) => a + b) / good.length; });
            return [lines, means.map(m => box.chart.convertToPixel({ yAxisIndex: 0 }, m))]; }""")
        lines, means = map(sorted, found)
        assert len(lines) == 3
        assert lines == pytest.approx(means, abs=1.5)


def test_every_figure_says_which_arm_is_which_on_screen_and_saved(visit):
    tab = visit()
    for figure in ("trials", "fragmentation", "latency-get", "histogram-get", "rates"):
        names = tab.locator(f"#figure-{figure} .legend .entry").all_inner_texts()
        assert names == ["glibc", "jemalloc-5.1.0", "jemalloc-5.1.0,metadata_thp=always"], figure
    marks = tab.locator("#figure-trials .mark path").evaluate_all(
        "e => e.map(m => m.getAttribute('d'))"
    )
    symbols = (
        drawn(tab, "trials")
        .locator(".plot")
        .first.evaluate(
            "b => b.chart.getOption().series.filter(s => s.type === 'scatter').map(s => s.symbol)"
        )
    )
    assert [f"path://{mark}" for mark in marks] == symbols
    assert len(set(marks)) == 3
    with tab.expect_download() as download:
        tab.locator("#figure-trials").get_by_role("button", name="Save SVG").click()
    words = list(ET.fromstring(download.value.path().read_bytes()).itertext())
    assert words.index("jemalloc-5.1.0,metadata_thp=always") < words.index(
        "pillowfight · persistent"
    )


def test_a_cell_of_thousands_is_not_written_in_millions(visit):
    tab = visit()
    units = [
        plot.evaluate("b => b.chart.getOption().yAxis[0].name")
        for plot in drawn(tab, "trials").locator(".plot").all()
    ]
    assert units == ["M ops/s", "M ops/s", "k ops/s", "k ops/s"]
    place = tab.evaluate(
        "JSON.parse(document.getElementById('data').textContent).charts.trials.findIndex(t => t.c === 3)"
    )
    kept = visit(state=f"trial={place}")
    assert re.search(r"\b[89]\d\.\d+ k ops/s", kept.locator("#trial").inner_text())


SECONDS = "b => b.chart.getModel().getComponent('xAxis', 0).axis.scale.getExtent()"


def test_a_zoom_shows_the_same_seconds_in_all_plots_of_throughput(visit):
    """pillowfight ran for 8 seconds, append for 14: a share of one axis is not the same time as of the other."""
    tab = visit()
    plots = drawn(tab, "rates").locator(".plot")
    own = [plot.evaluate(SECONDS) for plot in plots.all()]
    assert [end for _, end in own] == pytest.approx([8, 8, 14, 14])
    plots.first.focus()
    for _ in range(2):
        tab.keyboard.press("+")
    start, end = plots.first.evaluate(SECONDS)
    assert own[0][0] < start < end < own[0][1]
    for plot in plots.all():
        assert plot.evaluate(SECONDS) == pytest.approx([start, end], abs=0.02)
    tab.keyboard.press("Escape")
    assert [plot.evaluate(SECONDS) for plot in plots.all()] == [pytest.approx(ends) for ends in own]
    playwright_expect(tab).not_to_have_url(re.compile("zoom"))
    plots.nth(2).focus()
    tab.keyboard.press("+")
    tab.locator("#figure-rates").get_by_role("button", name="Zoom out").click()
    assert [plot.evaluate(SECONDS) for plot in plots.all()] == [pytest.approx(ends) for ends in own]


def test_memory_is_zoomed_with_throughput_where_it_has_its_seconds(visit):
    """append is sampled from its load phase on, which throughput has before its zero."""
    tab = visit()
    rates, memory = (drawn(tab, name).locator(".plot") for name in ("rates", "memory"))
    before = memory.nth(6).evaluate(SECONDS)
    plot = rates.first
    plot.focus()
    tab.keyboard.press("+")
    zoomed = plot.evaluate(SECONDS)
    assert memory.nth(0).evaluate(SECONDS) == pytest.approx(zoomed, abs=0.02)  # of pillowfight
    assert memory.nth(3).evaluate(SECONDS) == pytest.approx(zoomed, abs=0.02)
    assert memory.nth(6).evaluate(SECONDS) == before  # of append
    memory.nth(6).focus()
    tab.keyboard.press("+")
    assert memory.nth(6).evaluate(SECONDS) != before
    assert memory.nth(9).evaluate(SECONDS) == memory.nth(6).evaluate(SECONDS)
    assert plot.evaluate(SECONDS) == pytest.approx(zoomed)


def test_memory_goes_by_the_clock_where_arms_took_turns(browser, rounds_page):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(rounds_page.as_uri(), wait_until="load")
    rates, memory = (drawn(tab, name).locator(".plot").first for name in ("rates", "memory"))
    before = memory.evaluate(SECONDS)
    rates.focus()
    tab.keyboard.press("+")
    found, name = (
        memory.evaluate(SECONDS),
        memory.evaluate("b => b.chart.getOption().xAxis[0].name"),
    )
    context.close()
    assert found == before
    assert name == "seconds"


def test_trials_in_order_of_time_have_the_same_minutes(visit):
    tab = visit(state="time=1")
    plots = drawn(tab, "trials").locator(".plot")
    spans = [plot.evaluate(SECONDS) for plot in plots.all()]
    assert spans == [spans[0]] * 4
    plots.first.focus()
    tab.keyboard.press("+")
    zoomed = [plot.evaluate(SECONDS) for plot in plots.all()]
    assert zoomed == [zoomed[0]] * 4
    assert zoomed != spans


def test_the_drift_of_each_cell_is_told_with_its_interval(visit, page):
    """It is the analysis's figure, whatever is drawn."""
    tab = visit(state="time=1")
    cells = clean_blocks(report_trials(page))
    metric = metric_type("ops_per_s")
    titles = drawn(tab, "trials").locator("h3").all_inner_texts()
    for title, (cell, blocks) in zip(titles, cells.items(), strict=True):
        found = drift(blocks, metric)
        assert title.startswith(f"{cell}: drift ")
        low, high = found.ci95
        told = [
            float(part.replace("\u2212", "-"))
            for part in re.findall(r"[+\u2212]?\d+\.\d+", title)[-3:]
        ]
        assert told == pytest.approx(
            [100 * (end - 1) for end in (found.estimate, low, high)], abs=0.06
        )
    assert "drift" not in visit().locator("#figure-trials").inner_text().lower()


def test_zoom_is_linked_within_a_figure(visit):
    tab = visit()
    plots = drawn(tab, "trials").locator(".plot")
    window = "b => [b.chart.getOption().dataZoom[0].start, b.chart.getOption().dataZoom[0].end]"
    other = drawn(tab, "rates").locator(".plot").first
    whole = other.evaluate(window)
    plots.first.focus()
    tab.keyboard.press("+")
    start, end = plots.first.evaluate(window)
    assert start > 10
    assert end < 90
    assert plots.nth(3).evaluate(window) == [start, end]
    assert other.evaluate(window) == whole
    tab.keyboard.press("Escape")
    assert plots.nth(3).evaluate(window) == [0, 100]


def test_hovering_a_row_lights_its_arm_everywhere(visit):
    tab = visit()
    tab.locator(".comparison tr[data-arm='1']").first.hover()
    lit = tab.locator(".lit")
    assert {e.get_attribute("data-arm") for e in lit.all()} == {"1"}
    assert tab.locator(".results tr.lit").count() > 4


def test_tables_are_sorted_filtered_and_copied(visit):
    tab = visit(state="filter=fragmentation_rss")
    rows = tab.locator("table.results tbody tr:visible")
    assert rows.count() > 0
    assert all("fragmentation_rss" in text for text in rows.all_inner_texts())
    tab.locator("#filter").fill("ops_per_s")
    table = tab.locator("table.results").first
    table.get_by_role("button", name="change").click()
    assert table.locator("[aria-sort=ascending]").count() == 1
    values = [
        float(v)
        for v in table.locator("tbody tr:visible td:nth-child(4)").evaluate_all(
            "c => c.map(e => e.dataset.value)"
        )
        if v
    ]
    assert values == sorted(values)
    tab.locator("[data-copy=markdown]").first.click()
    playwright_expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    text = tab.evaluate("navigator.clipboard.readText()")
    assert text.startswith("| metric | variant | mean")
    assert all("ops_per_s" in line for line in text.splitlines()[2:])


def test_a_table_is_copied_as_csv(visit):
    tab = visit(state="filter=ops_per_s")
    tab.locator("[data-copy=csv]").first.click()
    playwright_expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    header, *rows = csv.reader(tab.evaluate("navigator.clipboard.readText()").splitlines())
    assert header[:3] == ["metric", "variant", "mean ± 95 %"]
    assert len(rows) >= 3
    assert {len(row) for row in rows} == {len(header)}
    assert rows[2][1] == "jemalloc-5.1.0,metadata_thp=always"  # a comma in a name is no column


def test_a_metrics_name_stays_with_the_rows_that_the_filter_and_the_order_leave(visit):
    tab = visit(390, state="filter=always")
    rows = tab.locator("table.results").first.locator("tbody tr:visible")
    assert rows.count() > 2
    for row in rows.all():
        assert row.locator("th").is_visible()  # its metric's first arm is not shown
    tab.locator("#filter").fill("")
    shown = tab.locator("table.results").first.locator("tbody th:visible").all_inner_texts()
    assert len(shown) == len(set(shown)) > 2  # once a metric


@pytest.mark.parametrize("state", ["trial=4", "log=1&time=1", "arms=0,2&cells=3&filter=rss"])
def test_an_address_brings_back_what_it_was_copied_from(visit, state):
    tab = visit(state=state)
    assert unquote(tab.url.split("#")[1]) == state
    assert tab.locator("#trial").is_visible() == state.startswith("trial")
    assert tab.locator("#log").is_checked() == tab.locator("#time").is_checked() == ("log" in state)
    if "arms" in state:
        assert tab.locator("[name=arm]:checked").count() == 2
        assert tab.locator("#figure-trials .plot").count() == 1
        assert tab.locator("#filter").input_value() == "rss"
    assert tab.log.count("error") == 0


def test_order_and_zoom_are_in_the_address(visit):
    tab = visit()
    table = tab.locator("[data-cell='1'] table.results").first
    for _ in range(2):  # down
        table.get_by_role("button", name="change").click()
    order = "t => [...t.tBodies[0].rows].map(r => r.dataset.metric + r.dataset.arm)"
    plots = drawn(tab, "rates").locator(".plot")
    plots.first.focus()
    tab.keyboard.press("+")
    playwright_expect(tab).to_have_url(re.compile("zoom="))
    window = "b => [b.chart.getOption().dataZoom[0].start, b.chart.getOption().dataZoom[0].end]"
    seen = plots.nth(2).evaluate(window), table.evaluate(order)

    again = visit(state=tab.url.split("#")[1])
    table = again.locator("[data-cell='1'] table.results").first
    assert table.locator("[aria-sort=descending]").inner_text().startswith("change")
    found = drawn(again, "rates").locator(".plot").nth(2).evaluate(window), table.evaluate(order)
    assert found[0] == pytest.approx(seen[0], abs=0.01)
    assert found[1] == seen[1]
    assert again.locator("table.results [aria-sort]").count() == 1

    again.get_by_role("button", name="Reset").click()
    assert "#" not in again.url
    fresh = visit().locator("[data-cell='1'] table.results").first.evaluate(order)
    assert table.evaluate(order) == fresh != seen[1]
    reset = drawn(again, "rates").locator(".plot").nth(2).evaluate(SECONDS)
    assert reset[1] == pytest.approx(14)


@pytest.mark.parametrize("state", ["sort=99.1,0.77,x", "zoom=rates:90~10,rates:5~500,nothing"])
def test_an_address_that_means_nothing_changes_nothing(visit, state):
    tab = visit(state=state)
    drawn(tab, "rates")
    assert tab.locator("[aria-sort]").count() == 0
    assert tab.log.count("error") == 0


def test_all_is_reached_by_keys(visit):
    tab = visit()
    tab.keyboard.press("Tab")
    skip = tab.get_by_text("Skip to the verdict")
    playwright_expect(skip).to_be_focused()
    assert skip.bounding_box()["x"] >= 0  # seen while it has the focus
    seen = set()
    focused = "(e => [e.id, e.name, e.className, e.tagName].join(' '))(document.activeElement)"
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate(focused))
    words = " ".join(seen)
    for what in ("metric ", "arm ", "cell ", "relative ", "log ", "time ", "plot ", "BUTTON"):
        assert what in words, what
    heading = tab.locator("table.results").first.get_by_role("button", name="change")
    heading.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("table.results").first.locator("[aria-sort=ascending]").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_chart_is_saved_as_it_is_seen(visit, scheme):
    tab = visit(1400, scheme=scheme)
    comparison = tab.locator("section.comparison")
    with tab.expect_download() as download:
        comparison.get_by_role("button", name="Save SVG").click()
    assert download.value.suggested_filename == "comparison.svg"
    picture = ET.fromstring(download.value.path().read_bytes())
    words = [e.text for e in picture.iter() if e.tag.endswith("text")]
    assert "Save" not in words
    for row in comparison.locator("tbody tr[data-arm]").all():
        for told in row.locator("td:visible").last.inner_text().split():
            assert told in words
    marks = [e.get("fill") for e in picture.iter() if (e.get("d") or "").endswith("Z")]
    ground = "e => getComputedStyle(e).backgroundColor"
    assert marks == [e.evaluate(ground) for e in comparison.locator(".strip .point").all()]
    frame = comparison.bounding_box()
    box = comparison.locator(".strip .ci").first.bounding_box()
    bars = [
        e
        for e in picture.iter()
        if e.get("fill") == comparison.locator(".strip .ci").first.evaluate(ground)
    ]
    assert [float(bars[0].get(key)) for key in ("x", "y", "width")] == pytest.approx(
        [box["x"] - frame["x"], box["y"] - frame["y"], box["width"]], abs=0.5
    )
    with tab.expect_download() as download:
        comparison.get_by_role("button", name="Save PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    assert download.value.path().stat().st_size > 20_000


def test_the_first_chart_is_saved_as_data_of_what_is_shown(visit):
    tab = visit(1400, state="cells=0,3&arms=0,2")
    with tab.expect_download() as download:
        tab.locator("section.comparison").get_by_role("button", name="Save CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    content = json.loads(tab.locator("#data").text_content())
    wanted = {
        (r["metric"], r["workload"], r["bucket"]): r
        for r in content["report"]["results"]
        if r["primary"] and r["estimate"] is not None and r["variant"].endswith("always")
    }
    places = {("pillowfight", "persistent"), ("append", "ephemeral")}
    assert {(r["workload"], r["bucket"]) for r in rows} == places
    assert len(rows) == 2 * 2  # of two primary metrics
    for row in rows:
        its = wanted[row["metric"], row["workload"], row["bucket"]]
        assert [float(row[k]) for k in ("estimate", "low", "high")] == [
            its["estimate"],
            *its["estimate_ci95"],
        ]
        assert row["verdict"] == its["verdict"]


@pytest.mark.parametrize("kind", ["SVG", "PNG", "CSV"])
def test_a_figure_is_saved(visit, kind, tmp_path):
    tab = visit()
    figure = drawn(tab, "trials")
    with tab.expect_download() as download:
        figure.get_by_role("button", name=f"Save {kind}").click()
    content = download.value.path().read_bytes()
    if kind == "SVG":
        words = "".join(ET.fromstring(content).itertext())
        assert "pillowfight · persistent" in words
    elif kind == "PNG":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    else:
        lines = content.decode().splitlines()
        assert lines[0] == "plot,series,x,y"
        assert len(lines) > 90


def test_without_scripts_charts_and_tables_remain(visit):
    tab = visit(scripts=False)
    assert tab.locator("svg.chart:visible").count() == 5
    assert tab.locator("table.results:visible").count() == 4
    assert tab.locator(".forest:visible").count() == 2
    assert tab.locator("#controls:visible").count() == 0


def test_what_is_folded_opens(visit):
    tab = visit()
    spec = tab.get_by_text("alert('a spec is text")
    assert not spec.is_visible()
    tab.get_by_text("Spec as it was written").click()
    assert spec.is_visible()
