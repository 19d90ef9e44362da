"""What is chosen on the report's page, and the address that brings it back, in a real browser."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from browsing import SECONDS, drawn
from playwright.sync_api import expect as playwright_expect

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.parametrize("state", ["metric=toString", "trial=length", "trial=-1"])
def test_an_address_that_names_nothing_shows_everything(visit, state):
    tab = visit(state=state)
    assert [entry for entry in tab.log if entry.startswith("error")] == []
    assert tab.locator("#figure-trials .plot").count() == 4
    assert not tab.locator("#trial").is_visible()


def test_no_variant_chosen_is_no_variant_when_the_address_is_read(visit):
    tab = visit()
    for box in tab.locator("[name=variant]").all():
        box.uncheck()
    again = visit(state=tab.url.split("#")[1])
    assert again.locator("[name=variant]:checked").count() == 0
    assert again.locator("#figure-trials").count() == 0


def test_the_address_is_copied_by_a_button(visit):
    tab = visit(state="log=1")
    tab.get_by_role("button", name="Copy address").click()
    playwright_expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()") == tab.url
    assert tab.url.endswith("#log=1")


def test_choosing_variants_cases_and_metrics_changes_everything_and_the_address(visit, page):
    tab = visit()
    tab.locator("[name=variant][value='2']").uncheck()
    tab.locator("[name=case][value='0']").uncheck()
    tab.locator("#metric").select_option("rss_bytes")
    assert tab.locator("tr[data-variant='2']:visible").count() == 0
    assert tab.locator("tr[data-variant='1']:visible").count() > 0
    assert tab.locator("#figure-trials .plot").count() == 3
    assert "RSS" in tab.locator("#figure-trials figcaption").inner_text()
    state = tab.url.split("#")[1]
    again = visit(state=state)
    assert again.locator("#metric").input_value() == "rss_bytes"
    assert again.locator("#figure-trials .plot").count() == 3
    assert again.locator("tr[data-variant='2']:visible").count() == 0
    again.get_by_role("button", name="Reset").click()
    assert "#" not in again.url
    assert again.locator("tr[data-variant='2']:visible").count() > 0


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("trial=4", marks=pytest.mark.long),
        pytest.param("log=1&time=1", marks=pytest.mark.long),
        "variants=0,2&cases=3&filter=rss",
    ],
)
def test_an_address_brings_back_what_it_was_copied_from(visit, state):
    tab = visit(state=state)
    assert unquote(tab.url.split("#")[1]) == state
    assert tab.locator("#trial").is_visible() == state.startswith("trial")
    assert tab.locator("#log").is_checked() == tab.locator("#time").is_checked() == ("log" in state)
    if "variants" in state:
        assert tab.locator("[name=variant]:checked").count() == 2
        assert tab.locator("#figure-trials .plot").count() == 1
        assert tab.locator("#filter").input_value() == "rss"
    assert tab.log.count("error") == 0


def test_order_and_zoom_are_in_the_address(visit):
    tab = visit()
    table = tab.locator("[data-case='1'] table.results").first
    for _ in range(2):  # down
        table.get_by_role("button", name="change").click()
    order = "t => [...t.tBodies[0].rows].map(r => r.dataset.metric + r.dataset.variant)"
    plots = drawn(tab, "rates").locator(".plot")
    plots.first.focus()
    tab.keyboard.press("+")
    playwright_expect(tab).to_have_url(re.compile("zoom="))
    window = "b => [b.chart.getOption().dataZoom[0].start, b.chart.getOption().dataZoom[0].end]"
    seen = plots.nth(2).evaluate(window), table.evaluate(order)

    again = visit(state=tab.url.split("#")[1])
    table = again.locator("[data-case='1'] table.results").first
    assert table.locator("[aria-sort=descending]").inner_text().startswith("change")
    matches = drawn(again, "rates").locator(".plot").nth(2).evaluate(window), table.evaluate(order)
    assert matches[0] == pytest.approx(seen[0], abs=0.01)
    assert matches[1] == seen[1]
    assert again.locator("table.results [aria-sort]").count() == 1

    again.get_by_role("button", name="Reset").click()
    assert "#" not in again.url
    fresh = visit().locator("[data-case='1'] table.results").first.evaluate(order)
    assert table.evaluate(order) == fresh != seen[1]
    reset = drawn(again, "rates").locator(".plot").nth(2).evaluate(SECONDS)
    assert reset[1] == pytest.approx(14)


@pytest.mark.long
@pytest.mark.parametrize("state", ["sort=99.1,0.77,x", "zoom=rates:90~10,rates:5~500,nothing"])
def test_an_address_that_means_nothing_changes_nothing(visit, state):
    tab = visit(state=state)
    drawn(tab, "rates")
    assert tab.locator("[aria-sort]").count() == 0
    assert tab.log.count("error") == 0
