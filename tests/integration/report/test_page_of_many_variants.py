"""The page of a dozen variants: what came out of each on a telephone's first screen, and variants that can be
distinguished."""

from __future__ import annotations

import pytest
from browsing import drawn

pytestmark = [pytest.mark.integration, pytest.mark.long]

VARIANTS = ("glibc", *(f"variant-{n}" for n in range(1, 12)))
PHONE = (390, 844)


@pytest.fixture
def page(many_variants):
    """The one that `visit` opens."""
    return many_variants


def test_a_telephone_has_a_line_a_variant_and_the_chart_on_its_first_screen(visit):
    tab = visit(PHONE[0])
    tab.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    rows = tab.locator(".brief tbody tr:visible")
    assert rows.count() == len(VARIANTS) - 1
    for row in rows.all():
        box = row.bounding_box()
        assert box["height"] < 30  # one line
        assert box["x"] + box["width"] <= PHONE[0]
        assert row.locator(".word").count() >= 2  # a verdict of each metric
    assert tab.locator(".panels .strip").first.bounding_box()["y"] < PHONE[1]
    assert not tab.locator(".sentences").is_visible()
    tab.get_by_text("Details by case").click()
    assert tab.locator(".sentences li:visible").count() == len(VARIANTS) - 1


def test_a_desk_has_the_sentences(visit):
    tab = visit(1400)
    assert tab.locator(".sentences li:visible").count() == len(VARIANTS) - 1
    assert tab.locator(".brief:visible").count() == 0
    tab.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert tab.locator(".brief:visible").count() == 1
    tab.set_viewport_size({"width": 1400, "height": 900})
    assert tab.locator(".sentences li:visible").count() == len(VARIANTS) - 1


def test_a_dozen_variants_are_distinguished_by_colour_mark_and_dashes(visit):
    tab = visit(1400)
    marks = tab.locator("#figure-trials .mark path").evaluate_all(
        "e => e.map(m => m.getAttribute('d') + m.getAttribute('fill'))"
    )
    assert len(set(marks)) == len(VARIANTS)
    lines = (
        drawn(tab, "rates")
        .locator(".plot")
        .first.evaluate(
            "b => b.chart.getOption().series.map(s => [s.name, s.lineStyle.color, String(s.lineStyle.type)])"
        )
    )
    assert len({tuple(line) for line in lines}) == len(VARIANTS)
    assert len({kind for _, _, kind in lines}) == 3
    samples = tab.locator("#figure-rates .mark path").evaluate_all(
        "e => e.map(m => m.getAttribute('d'))"
    )
    assert len(set(samples)) == 3


def test_each_change_lies_next_to_the_noise_floor(visit):
    tab = visit(1400)
    (plot,) = drawn(tab, "noise").locator(".plot").all()
    series = plot.evaluate("b => b.chart.getOption().series.map(s => [s.type, s.name, s.data])")
    bands = next(data for _, name, data in series if name == "noise floor")
    assert [band[0] for band in bands] == [1, 2]  # a case each
    assert all(low < 0 < high for _, low, high in bands)
    points = {name: data for kind, name, data in series if kind == "scatter"}
    assert set(points) == set(VARIANTS[1:])
    assert "noise floor" in points["variant-1"][0]["tip"]
