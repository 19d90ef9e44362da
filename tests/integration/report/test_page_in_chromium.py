"""The HTML report in a real browser: no errors, no requests, readable on a desk and on a telephone."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import sync_playwright

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=90_000)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, page):
    """visit(width, scheme) opens the report; what it logged and asked for is in `.log`."""
    contexts = []

    def open_page(width=1200, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=True
        )
        contexts.append(context)
        tab = context.new_page()
        tab.log = []
        tab.on("console", lambda message: tab.log.append(f"console {message.type}: {message.text}"))
        tab.on("pageerror", lambda error: tab.log.append(f"error: {error}"))
        tab.on("requestfailed", lambda request: tab.log.append(f"failed: {request.url[:200]}"))
        tab.on("request", lambda request: tab.log.append(f"request: {request.url[:200]}"))
        tab.goto(page.as_uri(), wait_until="load")
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


def test_verdicts_tables_charts_and_data_are_there(visit):
    tab = visit()
    assert tab.locator("article.card").count() == 4
    assert tab.locator("article.card.worse .word").first.inner_text() == "✘ worse"
    assert tab.locator("section table:visible").count() == 4
    assert tab.locator("table tbody tr").count() == 4 * (17 * 3 + 4 * 2)
    charts = tab.locator("figure svg.chart:visible")
    assert charts.count() == 9
    for index in range(charts.count()):
        box = charts.nth(index).bounding_box()
        assert box["width"] > 500
        assert box["height"] > 150
    content = json.loads(tab.locator("#data").text_content())
    assert len(content["trials"]) == 99
    assert content["report"]["experiment"] == "demo-20261120"


def test_what_is_folded_opens(visit):
    tab = visit()
    spec = tab.get_by_text("alert('a spec is text")
    assert not spec.is_visible()
    tab.get_by_text("Spec as it was written").click()
    assert spec.is_visible()
    tab.get_by_text("Exploratory metrics that changed").click()
    assert tab.locator("figure svg.chart:visible").count() == 13


@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_itself_never_scrolls_sideways(visit, width):
    tab = visit(width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    sizes = tab.locator("svg.chart").first.evaluate("svg => svg.getBoundingClientRect().width")
    assert sizes >= 500  # a chart keeps a readable size and scrolls in its own frame


def test_everything_has_an_accessible_name(visit):
    tab = visit()
    for index in range(tab.locator("svg.chart").count()):
        chart = tab.locator("svg.chart").nth(index)
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label")) > 20
    assert all(tab.locator("table").nth(i).locator("caption").count() for i in range(8))
    assert tab.locator("h1").count() == 1
    assert tab.locator("html").get_attribute("lang") == "en"
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground(visit, scheme):
    tab = visit(scheme=scheme)
    ground = tab.locator(".card").first.evaluate("e => getComputedStyle(e).backgroundColor")
    for selector in ("h2", ".soft", ".word.better", ".word.worse", ".word.unsure", "dt"):
        colour = tab.locator(selector).first.evaluate("e => getComputedStyle(e).color")
        assert contrast(colour, ground) >= 4.5, (selector, colour, ground)
    label = tab.locator("svg.chart text").first.evaluate("e => getComputedStyle(e).fill")
    assert contrast(label, ground) >= 4.5


def contrast(one, other):
    """WCAG contrast of two rgb(...) colours."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(float(c)) / 255 for c in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
