"""The tables of the report's page in a real browser: sorted, filtered, copied, saved."""

from __future__ import annotations

import csv
import json

import pytest
from browsing import drawn
from playwright.sync_api import expect as playwright_expect

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.long
def test_typing_in_the_filter_draws_no_chart_again(visit):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first.element_handle()
    tab.locator("#filter").fill("rss")
    assert tab.locator("table.results tbody tr:visible").count() > 0
    assert tab.url.endswith("#filter=rss")
    assert plot.evaluate("b => b.isConnected && !b.chart.isDisposed()")


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


def test_hovering_a_row_lights_its_variant_everywhere(visit):
    tab = visit()
    tab.locator(".comparison tr[data-variant='1']").first.hover()
    lit = tab.locator(".lit")
    assert {e.get_attribute("data-variant") for e in lit.all()} == {"1"}
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


@pytest.mark.long
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
        assert row.locator("th").is_visible()  # its metric's first variant is not shown
    tab.locator("#filter").fill("")
    shown = tab.locator("table.results").first.locator("tbody th:visible").all_inner_texts()
    assert len(shown) == len(set(shown)) > 2  # once a metric
