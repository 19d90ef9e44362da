"""From a comparison of two commits to the result of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfrunner.analysis.model import Comparison, Effect, Row, Summary
from perfrunner.bisect.compare import result_of
from perfrunner.domain import Case
from perfrunner.spec.metrics import metric_type

CASE = Case("w", "-")
EFFECT = Effect("ratio", "good", 10, 0.97, (0.96, 0.98), 0.001, 5.0, 0.01, 0.01, 0.01, q=0.001)
ROW = Row(
    CASE, metric_type("ops_per_s"), "bad", "b", Summary({1: 1.0}, 1.0, None, None, 1.0, 1.0, None),
    EFFECT, True, "worse",
)  # fmt: skip


def result(**changes):
    comparison = Comparison("good", ("good", "bad"), (CASE,), (replace(ROW, **changes),), (), 10, 1)
    return result_of(comparison, "ops_per_s", "bad", ("a trial failed",))


def test_a_verdict_comes_with_its_interval():
    measured = result()
    assert (measured.verdict, measured.blocks) == ("worse", 10)
    assert (measured.low, measured.estimate, measured.high) == (0.96, 0.97, 0.98)


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "not comparable"}, {"effect": None, "verdict": None}],
)
def test_the_rate_of_a_saturated_client_decides_nothing(changes):
    """It is that of the client, whatever the commit."""
    measured = result(reason="the load client is saturated", **changes)
    assert measured.estimate is None
    assert measured.why == "the load client is saturated; a trial failed"


def test_a_change_without_a_verdict_says_why():
    measured = result(verdict=None, reason="0.5 s of load per trial")
    assert measured.estimate == 0.97
    assert measured.why == "0.5 s of load per trial"
