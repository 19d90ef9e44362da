"""What tests in a browser share."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from perfrunner.results import ResultStore

# of a plot: the first and the last value of its horizontal axis
SECONDS = "box => box.chart.getModel().getComponent('xAxis', 0).axis.scale.getExtent()"


def drawn(tab, figure):
    """The figure, its plots drawn."""
    matches = tab.locator(f"#figure-{figure}")
    matches.scroll_into_view_if_needed()
    for plot in matches.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    expect(matches.locator(".plot svg")).to_have_count(matches.locator(".plot").count())
    return matches


def contrast(single, other):
    """WCAG contrast of two rgb(...) colours."""
    lighter, darker = sorted((luminance(single), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(float(c)) / 255 for c in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def report_trials(page):
    """The trials of the store that a page lies in."""
    with ResultStore.open(page.parent, create=False) as store:
        return store.load(store.list()[0].experiment.id).trials


def violations(tab):
    """What axe finds in a page with all of it drawn, the folds open and a trial kept."""
    for plot in tab.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    expect(tab.locator(".plot svg")).to_have_count(tab.locator(".plot").count())
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    matches = Axe().run(tab)
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in matches.response["violations"]]
