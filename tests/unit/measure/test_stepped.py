"""The figures of a step, from what was completed in each millisecond."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.workloads.step import (
    CheckedConsistency,
    longest_gap,
    parse_checked_consistency,
    step_metrics,
)


def report(per_ms: list[int], **changes: Any) -> str:
    mix = {"lost": 3, "foreign": 0, "not_my_vbucket": 7, "broken_off": 2, "maps": 4}
    document: dict[str, Any] = {
        "learn": {"absent": 0, "errors": {"etmpfail": 1, "other": 0}},
        "access": {**mix, "per_ms": per_ms},
        "check": {"documents": 50, "lost": 1, "foreign": 0, "errors": {"etmpfail": 2, "other": 1}},
    }
    return json.dumps({**document, **changes})


def test_processes_are_added_millisecond_by_millisecond() -> None:
    results = parse_checked_consistency({"a": report([1, 2, 3]), "b": report([10])})
    assert results == CheckedConsistency(
        documents=94, unread_before=2, missing_before=0, lost=8, foreign=0, not_my_vbucket=14, broken_off=4, maps=4,
        per_ms=(11, 2, 3),
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"check": None},
        {"access": {"lost": 1}},
        {"learn": {}},
        {"learn": {"absent": 0, "errors": None}},
    ],
)
def test_a_report_that_lacks_something_is_named(changes: dict[str, Any]) -> None:
    with pytest.raises(TrialError, match=r"^client-2\.json: not a report of a consistency checker"):
        parse_checked_consistency({"client-2.json": report([1], **changes)})


def test_throughput_around_a_step() -> None:
    # 10 a ms; nothing from 2.9 to 3.2 s; then 5 a ms until the load ends at 5 s, idle in its last 100 ms
    per_ms = [10] * 2900 + [0] * 300 + [5] * 1700
    metrics = step_metrics(per_ms, ramp=1.0, began=2.8, ended=3.3, end=5.0)
    assert metrics == pytest.approx(
        {
            "ops_per_s": (19_000 + 8_500) / 4.0,
            "ops_per_s_before": 10_000,
            "ops_per_s_during": (1000 + 500) / 0.5,
            "ops_per_s_after": 8000 / 1.7,
            "step_s": 0.5,
            "service_gap_ms": 300,
        }
    )


def test_a_gap_that_outlasts_the_step_counts_and_one_before_it_does_not() -> None:
    per_ms = [10] * 1200 + [0] * 700 + [10] * 1100 + [0] * 500 + [10] * 500
    metrics = step_metrics(per_ms, ramp=1.0, began=2.5, ended=3.1, end=4.0)
    assert metrics["service_gap_ms"] == 500


@pytest.mark.parametrize(
    ("began", "ended", "end"), [(0.9, 2.0, 5.0), (2.0, 2.0, 5.0), (2.0, 5.0, 4.9)]
)
def test_a_step_that_was_not_within_the_load_is_none(
    began: float, ended: float, end: float
) -> None:
    with pytest.raises(TrialError, match="is not inside the load"):
        step_metrics([1] * 5000, 1.0, began, ended, end)


@pytest.mark.parametrize(
    ("counts", "gap"), [([], 0), ([1], 0), ([0], 1), ([0, 0, 1, 0], 2), ([1, 0, 1, 0, 0, 0], 3)]
)
def test_the_longest_gap(counts: list[int], gap: int) -> None:
    assert longest_gap(counts) == gap
