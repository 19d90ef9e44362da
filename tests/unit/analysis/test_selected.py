"""Intervals of event counts, and of rows that were selected because they changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.analysis.estimate import events_effect, paired_effect
from perfrunner.analysis.other_metrics import moved_with
from perfrunner.domain import Case

CASE = Case("w", "-")


def lost_writes(data_of, base, other):
    report = compare(data_of({"a": base, "b": other}, "lost_writes"))
    return [row for row in report.rows if row.metric.id == "lost_writes"]


def test_no_event_in_ten_trials_is_no_proof_that_there_are_none(data_of):
    first, second = lost_writes(data_of, [0] * 10, [0] * 10)
    most = stats.chi2.ppf(0.975, 2) / 2 / 10
    assert first.summary.ci95 == pytest.approx((0.0, most))
    assert second.effect.ci95 == pytest.approx((-most, most))
    assert second.verdict == "same", "within the margin of one document"


def test_one_event_more_in_each_block_is_tested_by_the_conditional_test(data_of):
    """The paired values do not spread, and six events of six are no certainty."""
    _, row = lost_writes(data_of, [0] * 6, [1] * 6)
    assert row.effect.p == pytest.approx(stats.binomtest(6, 6).pvalue)
    assert row.effect.ci95[0] < 1.0 < row.effect.ci95[1]


def of_two_runs(data_of, base, other):
    return compare_unpaired(
        data_of({"a": base}, "lost_writes"), data_of({"a": other}, "lost_writes"), "a", "a"
    ).rows


def test_no_event_in_two_runs_is_no_proof_either(data_of):
    first, second = of_two_runs(data_of, [0] * 10, [0] * 20)
    most, less = (stats.chi2.ppf(0.975, 2) / 2 / n for n in (10, 20))
    assert (first.summary.ci95, second.summary.ci95) == ((0.0, most), (0.0, less))
    assert second.effect.ci95 == pytest.approx((-most, less))
    assert second.effect.p == 1.0


def test_events_of_two_runs_are_tested_by_their_trials(data_of):
    """Twelve events in twelve trials and none in six are no certainty."""
    _, row = of_two_runs(data_of, [0] * 6, [1] * 12)
    assert row.effect.p == pytest.approx(2 * (2 / 3) ** 12)
    _, back = of_two_runs(data_of, [1] * 12, [0] * 6)
    assert back.effect.p == pytest.approx(row.effect.p)
    assert back.effect.ci95 == pytest.approx(tuple(-end for end in reversed(row.effect.ci95)))


def test_events_in_bursts_keep_the_wider_interval_of_the_blocks(data_of):
    base, other = [0] * 9 + [400], [0] * 8 + [90, 300]
    _, row = lost_writes(data_of, base, other)
    blocks = paired_effect(
        "difference", "a", dict(enumerate(base)), dict(enumerate(other)), margin=1.0
    )
    assert row.effect.ci95 == pytest.approx(blocks.ci95)


def test_intervals_of_counts_cover_the_truth(rng):
    """Poisson counts with fewer than one event a trial, where the t interval is often a point."""
    covered, runs, n = 0, 400, 10
    for _ in range(runs):
        base, other = (
            dict(enumerate(rng.poisson(mean, n).astype(float).tolist())) for mean in (0.05, 0.3)
        )
        effect = paired_effect("difference", "a", base, other, 1.0)
        low, high = events_effect(effect, base, other).ci95
        covered += low <= 0.25 <= high
    assert covered / runs >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / runs)


def test_selected_intervals_are_wider_by_the_share_that_was_selected(data_of, trial, data, rng):
    metrics = [
        f"latency_{op}_{p}_us" for op in ("get", "set") for p in ("p50", "p90", "p95", "p99")
    ]
    trials = [
        trial(block, variant, {
            "ops_per_s": 1e6,
            **{m: 100 * float(np.exp(rng.normal(0, 0.01) + 0.1 * (variant == "b" and m == metrics[0])))
               for m in metrics},
        })
        for block in range(1, 11)
        for variant in "ab"
    ]  # fmt: skip
    report = compare(data(trials))
    moved = moved_with(report, CASE, "b")
    assert [row.metric.id for row in moved] == [metrics[0]]
    table = report.row(CASE, metrics[0], "b").effect
    low, high = np.log(moved[0].effect.ci95)
    wanted = stats.t.isf(0.05 / len(metrics) / 2, 9) / stats.t.isf(0.025, 9)
    assert (high - low) / np.ptp(np.log(table.ci95)) == pytest.approx(wanted)
