"""The figures of the report's page in a real browser: what they draw, their zoom, and how they are saved."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET

import pytest
from browsing import SECONDS, drawn, report_trials
from playwright.sync_api import expect as playwright_expect

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.quality import drift
from perfrunner.report.numbers import DIVIDE_SIGN, TIMES_SIGN
from perfrunner.spec.metrics import metric_type

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.long
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


@pytest.mark.long
def test_rounds_have_a_distribution(browser, rounds_page):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(rounds_page.as_uri(), wait_until="load")
    matches = (
        drawn(tab, "spread")
        .locator(".plot")
        .first.evaluate(
            "b => b.chart.getOption().series.map(s => [s.name, s.data.map(d => d.value), s.markLine.data[0].xAxis])"
        )
    )
    context.close()
    assert [name for name, _, _ in matches] == [
        "jemalloc-5.1.0",
        "jemalloc-5.1.0,metadata_thp=always",
    ]
    for _, bars, level in matches:
        assert [x for x, _ in bars] == [x for x, _ in matches[0][1]]  # the same bars for all
        assert 97 <= sum(share for _, share in bars) <= 100
        assert bars[0][0] < level < bars[-1][0]


@pytest.mark.long
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


def test_a_trial_of_a_discarded_block_is_faint_and_in_no_mean(visit):
    """Block 3 of the first case is discarded for one variant's sake: the other variants' first attempts count
    nowhere."""
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


def test_a_trial_is_paired_with_the_baseline_of_its_group(browser, two_groups):
    path, report = two_groups
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(path.as_uri() + "#relative=1", wait_until="load")
    matches = drawn(tab, "trials").locator(".plot").first.evaluate(
        "b => b.chart.getOption().series.filter(s => s.type === 'scatter').map(s => [s.name, s.data.map(d => d.value)])"
    )  # fmt: skip
    context.close()
    case = report.comparison.cases[0]
    blocks = clean_blocks(report_trials(path))[case]
    for name, points in matches:
        paired = blocks.paired("ops_per_s", report.comparison.baseline, name)
        wanted = {b: 100 * (paired.other[b] / paired.base[b] - 1) for b in paired.base}
        assert dict(points) == pytest.approx(wanted, abs=1e-3)


@pytest.mark.long
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


@pytest.mark.long
def test_changes_that_are_not_large_are_linear_and_all_there(visit):
    tab = visit(state="relative=1&log=1")
    plot = drawn(tab, "trials").locator(".plot").nth(1)
    kind, counts = plot.evaluate(
        """b => { const o = b.chart.getOption(), points = o.series.filter(s => s.type === 'scatter');
            return [o.yAxis[0].type, points.map(s => s.data.length)]; }"""
    )
    assert (kind, counts) == ("value", [8, 8])


@pytest.mark.long
def test_the_mean_of_a_variant_is_drawn_where_it_is(visit):
    """The chart library rounds such lines to two places, unless it is asked not to."""
    tab = visit()
    for plot in drawn(tab, "trials").locator(".plot").all():
        matches = plot.evaluate("""box => {
            const top = box.getBoundingClientRect().y, dashed = [...box.querySelectorAll('path[stroke-dasharray]')];
            const lines = dashed.map(e => e.getBoundingClientRect().y - top);
            const means = box.chart.getOption().series.filter(s => s.type === 'scatter').map(s => {
                const good = s.data.filter(d => d.itemStyle.opacity === undefined).map(d => d.value[1]);
                return good.reduce((a, b) => a + b) / good.length; });
            return [lines, means.map(m => box.chart.convertToPixel({ yAxisIndex: 0 }, m))]; }""")
        lines, means = map(sorted, matches)
        assert len(lines) == 3
        assert lines == pytest.approx(means, abs=1.5)


def test_every_figure_says_which_variant_is_which_on_screen_and_saved(visit):
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


@pytest.mark.long
def test_a_case_of_thousands_is_not_written_in_millions(visit):
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


@pytest.mark.long
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


@pytest.mark.long
def test_memory_goes_by_the_clock_where_variants_took_turns(browser, rounds_page):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(rounds_page.as_uri(), wait_until="load")
    rates, memory = (drawn(tab, name).locator(".plot").first for name in ("rates", "memory"))
    before = memory.evaluate(SECONDS)
    rates.focus()
    tab.keyboard.press("+")
    matches, name = (
        memory.evaluate(SECONDS),
        memory.evaluate("b => b.chart.getOption().xAxis[0].name"),
    )
    context.close()
    assert matches == before
    assert name == "seconds"


@pytest.mark.long
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


@pytest.mark.long
def test_the_drift_of_each_case_is_reported_with_its_interval(visit, page):
    """It is the analysis's figure, whatever is drawn."""
    tab = visit(state="time=1")
    cases = clean_blocks(report_trials(page))
    metric = metric_type("ops_per_s")
    titles = drawn(tab, "trials").locator("h3").all_inner_texts()
    for title, (case, blocks) in zip(titles, cases.items(), strict=True):
        matches = drift(blocks, metric)
        assert title.startswith(f"{case}: drift ")
        low, high = matches.ci95
        messages = [
            float(part.replace("\u2212", "-"))
            for part in re.findall(r"[+\u2212]?\d+\.\d+", title)[-3:]
        ]
        assert messages == pytest.approx(
            [100 * (end - 1) for end in (matches.estimate, low, high)], abs=0.06
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


@pytest.mark.long
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
    for row in comparison.locator("tbody tr[data-variant]").all():
        for messages in row.locator("td:visible").last.inner_text().split():
            assert messages in words
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
    tab = visit(1400, state="cases=0,3&variants=0,2")
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
        of_it = wanted[row["metric"], row["workload"], row["bucket"]]
        assert [float(row[k]) for k in ("estimate", "low", "high")] == [
            of_it["estimate"],
            *of_it["estimate_ci95"],
        ]
        assert row["verdict"] == of_it["verdict"]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("SVG", marks=pytest.mark.long),
        "PNG",
        pytest.param("CSV", marks=pytest.mark.long),
    ],
)
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
