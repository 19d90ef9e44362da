"""The HTML report in a real browser: no errors, no requests, readable on a desk and on a telephone."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect as playwright_expect

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]


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


def drawn(tab, figure):
    """The figure, its plots drawn."""
    found = tab.locator(f"#figure-{figure}")
    found.scroll_into_view_if_needed()
    for plot in found.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    playwright_expect(found.locator(".plot svg")).to_have_count(found.locator(".plot").count())
    return found


def test_hovering_a_point_tells_its_trial_and_a_click_keeps_it(visit):
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
    assert (
        kept.get_by_text("reproduce.sh").get_attribute("href").startswith("demo-20261120/trials/3-")
    )
    assert "trial=" in tab.url


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


def test_zoom_is_linked_within_a_figure(visit):
    tab = visit()
    plots = drawn(tab, "rates").locator(".plot")
    plots.first.focus()
    tab.keyboard.press("+")
    window = "b => [b.chart.getOption().dataZoom[0].start, b.chart.getOption().dataZoom[0].end]"
    start, end = plots.first.evaluate(window)
    assert start > 10
    assert end < 90
    assert plots.nth(3).evaluate(window) == [start, end]
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


def test_on_paper_nothing_is_cut_and_the_folds_are_open(visit, tmp_path):
    tab = visit(750)
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open])").count() == 0
    clipped = tab.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert clipped == 0
    tab.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 50_000


def test_the_rows_of_a_table_lie_in_its_columns(visit):
    """The first row of a metric has the class of the first screen's name, and once had its grid."""
    tab = visit(1400)
    rows = tab.locator("table.results tbody tr")
    assert set(rows.evaluate_all("r => r.map(e => getComputedStyle(e).display)")) == {"table-row"}


def test_what_is_folded_opens(visit):
    tab = visit()
    spec = tab.get_by_text("alert('a spec is text")
    assert not spec.is_visible()
    tab.get_by_text("Spec as it was written").click()
    assert spec.is_visible()


@pytest.mark.parametrize("width", [390, 800, 1400, 2400])
def test_the_page_itself_never_scrolls_sideways(visit, width):
    tab = visit(width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert drawn(tab, "trials").locator(".plot").first.bounding_box()["width"] >= 280


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(visit, scheme):
    tab = visit(scheme=scheme)
    drawn(tab, "trials")
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    found = Axe().run(tab)
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground(visit, scheme):
    tab = visit(scheme=scheme)
    ground = tab.locator(".controls").evaluate("e => getComputedStyle(e).backgroundColor")
    for selector in ("h2", ".soft", ".word.better", ".word.worse", ".word.unsure", "dt"):
        colour = tab.locator(selector).first.evaluate("e => getComputedStyle(e).color")
        assert contrast(colour, ground) >= 4.5, (selector, colour, ground)
    label = (
        drawn(tab, "trials").locator(".plot text").first.evaluate("e => getComputedStyle(e).fill")
    )
    assert contrast(label, ground) >= 4.5


def contrast(one, other):
    """WCAG contrast of two rgb(...) colours."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(float(c)) / 255 for c in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
