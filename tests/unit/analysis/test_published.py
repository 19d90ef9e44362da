"""Ours next to published: direction, interval, and when nothing can be concluded."""

from __future__ import annotations

import pytest

from perfrunner.analysis.model import Comparison, Effect, Row, Summary
from perfrunner.analysis.published import published_lines
from perfrunner.domain import Case
from perfrunner.spec.expectations import PublishedValues
from perfrunner.spec.metrics import metric_type

CASE = Case("pf", "persistent")


def summary(mean):
    return Summary(dict.fromkeys(range(10), mean), mean, 0.0, 0.0, mean, mean, (mean, mean))


def row(metric_id, variant, mean, effect=None, verdict=None):
    return Row(CASE, metric_type(metric_id), variant, "b", summary(mean), effect, True, verdict)


def effect(kind, estimate, low, high, margin, n=10):
    return Effect(kind, "base", n, estimate, (low, high), 0.01, 3.0, 0.1, 0.01, margin)


def compared(metric_id, published, measured, verdict, n=10):
    """The line of variant `new`, with published as (base, new) and measured as (estimate, low, high)."""
    metric = metric_type(metric_id)
    margin = 0.01 if metric.effect == "ratio" else 1.0
    rows = [row(metric_id, "base", 100.0)]
    if measured is not None:
        rows.append(
            row(metric_id, "new", 100.0, effect(metric.effect, *measured, margin, n), verdict)
        )
    comparison = Comparison("base", ("base", "new"), (CASE,), tuple(rows), (), 10, 1)
    values = dict(zip(("base", "new"), published, strict=True))
    published = PublishedValues.model_validate({
        "source": "x",
        "tables": [{"title": "t", "workload": "pf", "bucket": "persistent",
                    "rows": [{"metric": metric_id, "values": values}]}],
    })  # fmt: skip
    base, new = published_lines(published, comparison)
    assert base.agreement is None
    return new


@pytest.mark.parametrize(
    ("published", "measured", "verdict", "agreement"),
    [
        ((100, 120), (1.2, 1.1, 1.3), "better", "agrees"),
        ((100, 120), (1.02, 1.011, 1.03), "better", "agrees"),
        ((100, 120), (0.9, 0.8, 0.95), "worse", "disagrees"),
        ((100, 120), (1.0, 0.995, 1.005), "same", "disagrees"),
        (
            (100, 120),
            (1.005, 1.002, 1.008),
            "better",
            "disagrees",
        ),  # small: certain, and within the margin
        ((100, 120), (0.995, 0.992, 0.998), "worse", "disagrees"),
        ((100, 120), (1.0, 0.9, 1.1), "unsure", "cannot tell"),
        ((100, 120), (1.2, 1.1, 1.3), "not comparable", "cannot tell"),
        ((100, 100.5), (1.0, 0.995, 1.005), "same", "agrees"),
        ((100, 100.5), (1.2, 1.1, 1.3), "better", "disagrees"),
        ((100, 100.5), (1.05, 0.99, 1.1), "unsure", "cannot tell"),
        ((100, 100.5), (1.05, 1.005, 1.1), "better", "cannot tell"),
        ((100, 120), None, None, "cannot tell"),
    ],
)
def test_direction_and_interval_decide(published, measured, verdict, agreement):
    assert compared("ops_per_s", published, measured, verdict).agreement == agreement


def test_theirs_of_a_percentage_is_a_difference():
    line = compared("fragmentation_rss", (21.2, 24.5), (4.0, 3.0, 5.0), "worse")
    assert line.effect == pytest.approx(3.3)
    assert line.agreement == "agrees"
    assert line.size == "the published effect is inside the measured interval"


@pytest.mark.parametrize(
    ("published", "measured", "verdict", "size"),
    [
        ((100, 120), (1.4, 1.3, 1.5), "better", "the measured effect is larger"),
        ((100, 120), (1.05, 1.02, 1.08), "better", "the measured effect is smaller"),
        ((100, 50), (0.1, 0.05, 0.2), "worse", "the measured effect is larger"),
        ((100, 50), (0.9, 0.8, 0.95), "worse", "the measured effect is smaller"),
    ],
)
def test_of_two_that_agree_the_sizes_are_compared(published, measured, verdict, size):
    assert compared("ops_per_s", published, measured, verdict).size == size


@pytest.mark.parametrize(
    ("published", "measured", "verdict", "likeness"),
    [
        ((100, 120), (1.21, 1.15, 1.27), "better", "same size"),
        ((100, 120), (1.17, 1.16, 1.18), "better", "same size"),  # within a quarter of published
        ((100, 120), (1.4, 1.3, 1.5), "better", "same direction"),
        ((200, 1), (1 / 48_800, 1 / 50_000, 1 / 47_000), "worse", "same direction"),
        ((100, 100.5), (1.002, 0.999, 1.004), "same", "same size"),
        ((100, 120), (0.9, 0.8, 0.95), "worse", "disagrees"),
        ((100, 120), (1.2, 0.9, 1.5), "unsure", "cannot tell"),
    ],
)
def test_sizes_and_directions_are_counted_separately(published, measured, verdict, likeness):
    assert compared("ops_per_s", published, measured, verdict).likeness == likeness


@pytest.mark.parametrize("measured", [(0.997, 0.994, 0.999), (1.002, 0.999, 1.004)])
def test_two_that_stay_within_the_margin_have_no_size(measured):
    line = compared("ops_per_s", (100, 100.5), measured, "same")
    assert (line.agreement, line.why, line.size) == ("agrees", "both stay within the margin", "")


def test_too_few_blocks_tell_nothing():
    line = compared("ops_per_s", (100, 120), (1.2, 1.1, 1.3), None, n=5)
    assert line.agreement == "cannot tell"
    assert "5 blocks" in line.why


def test_a_metric_without_a_good_direction_goes_by_its_interval():
    assert compared("vsz_bytes", (100, 120), (1.2, 1.1, 1.3), None).agreement == "agrees"
    assert compared("vsz_bytes", (100, 120), (1.02, 0.98, 1.06), None).agreement == "cannot tell"


def test_of_several_metrics_the_first_measured_one_is_ours():
    names = ["HTB/Insert/historic/threads:24", "HTB/Insert/historic/threads:2"]
    rows = (row(names[1], "base", 10.0),)
    published = PublishedValues.model_validate({
        "source": "x",
        "tables": [{"title": "t", "workload": "pf", "bucket": "persistent",
                    "rows": [{"metric": names, "values": {"base": 5}}]}],
    })  # fmt: skip
    (line,) = published_lines(published, Comparison("base", ("base",), (CASE,), rows, (), 10, 1))
    assert line.metric.id == names[1]
    assert line.measured is rows[0]
