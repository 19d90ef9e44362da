"""The HTML report in a real browser: no errors, no requests, and its points shown by mouse and by keys."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

import pytest
from browsing import drawn, violations
from playwright.sync_api import expect as playwright_expect

pytestmark = [pytest.mark.integration, pytest.mark.slow]


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
    assert tab.locator(".comparison tr[data-variant]").count() == 2 * 4 * 2
    phone = visit(390)
    box = phone.locator(".comparison .effects").first.bounding_box()
    assert box["y"] + box["height"] / 2 <= 844
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
def test_a_click_on_rates_and_rounds_opens_the_trial_that_is_reported(
    browser, request, which, figure
):
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


def test_a_trial_of_one_of_two_baselines_of_a_block_is_the_one_that_is_drawn(browser, two_groups):
    """The baseline runs in each group of a block: a point of its rates belongs to one of them."""
    path, _ = two_groups
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(path.as_uri(), wait_until="load")
    matches = drawn(tab, "rates").locator(".plot").first.evaluate(
        """b => b.chart.getOption().series.map(s => s.data.find(d => d && d.trial !== undefined))
            .filter(Boolean).map(d => d.trial)"""
    )  # fmt: skip
    context.close()
    assert len(matches) == len(set(matches)) == 8 * 4  # blocks, and the variants of two groups


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
        ("page", "trials"), ("page", "rates"), ("page", "histogram-get"),
        *(
            pytest.param(*which, marks=pytest.mark.long)
            for which in [
                ("page", "fragmentation"), ("page", "memory"), ("page", "latency-get"), ("rounds_page", "rounds"),
                ("rounds_page", "spread"), ("churned_page", "churn"), ("many_variants", "noise"),
            ]
        ),
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
    tab.evaluate("([x, y]) => document.elementFromPoint(x, y).remove()", [x, y])  # as drawing again
    tab.mouse.move(2, 2)
    playwright_expect(hint).to_be_hidden()
    plot.focus()
    tab.keyboard.press("ArrowRight")
    playwright_expect(hint).to_be_visible()
    messages = hint.inner_text()
    assert tab.locator("#announcement").text_content().replace(", ", "") == messages.replace(
        "\n", ""
    ).replace(", ", "")
    tab.keyboard.press("ArrowDown")
    playwright_expect(hint).to_be_visible()
    context.close()


def test_the_arrow_keys_go_from_trial_to_trial(visit):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first
    plot.focus()
    tab.keyboard.press("ArrowRight")
    messages = tab.locator("#announcement")
    playwright_expect(messages).to_contain_text("block 1")
    tab.keyboard.press("ArrowRight")
    playwright_expect(messages).to_contain_text("block 2")
    tab.keyboard.press("ArrowDown")
    playwright_expect(messages).to_contain_text("jemalloc-5.1.0")
    tab.keyboard.press("Enter")
    playwright_expect(tab.locator("#trial")).to_be_visible()


def test_all_is_reached_by_keys(visit):
    tab = visit()
    tab.keyboard.press("Tab")
    skip = tab.get_by_text("Skip to the summary")
    playwright_expect(skip).to_be_focused()
    assert skip.bounding_box()["x"] >= 0  # seen while it has the focus
    seen = set()
    focused = "(e => [e.id, e.name, e.className, e.tagName].join(' '))(document.activeElement)"
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate(focused))
    words = " ".join(seen)
    for what in ("metric ", "variant ", "case ", "relative ", "log ", "time ", "plot ", "BUTTON"):
        assert what in words, what
    heading = tab.locator("table.results").first.get_by_role("button", name="change")
    heading.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("table.results").first.locator("[aria-sort=ascending]").count() == 1


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
    tab.get_by_text("Spec as written").click()
    assert spec.is_visible()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1200, "dark"), (390, "light")])
def test_axe_finds_no_violation(visit, width, scheme):
    assert violations(visit(width, scheme=scheme, state="trial=4")) == []
