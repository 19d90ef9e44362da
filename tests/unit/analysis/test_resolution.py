"""Metrics that repeat exactly: a step below the resolution is no difference, however certain it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.compare import compare
from perfrunner.analysis.estimate import NotARatioError, paired_effect, unpaired_effect
from perfrunner.spec.metrics import METRICS


def verdict_of(data_of, metric, base, other, **spec):
    (row,) = [r for r in compare(data_of({"a": base, "b": other}, metric, **spec)).rows if r.effect]
    return row


@pytest.mark.parametrize(
    ("metric", "base", "other"),
    [
        ("fragmentation_mapped", 21.900, 21.902),  # an A/A run of the quickstart
        ("mapped_bytes", 23_429_120.0, 23_429_120.0 + 4096),  # a longer path in the heap
        ("latency_get_p50_us", 100.0, 100.1),  # the next bucket of the histogram
    ],
)
def test_a_step_below_the_resolution_is_the_same_although_every_block_repeats_it(
    data_of, metric, base, other
):
    row = verdict_of(data_of, metric, [base] * 10, [other] * 10)
    assert row.verdict == "same"
    assert row.effect.p == 1.0
    assert row.notes == ()  # the signed-rank test is against the same resolution: no disagreement


def test_a_step_below_the_resolution_with_little_spread_is_the_same(data_of):
    base = [21.9 + 0.0001 * (block % 3) for block in range(10)]
    other = [v + 0.03 + 0.0002 * (block % 2) for block, v in enumerate(base)]
    assert verdict_of(data_of, "fragmentation_rss", base, other).verdict == "same"


def test_a_step_beyond_the_resolution_is_a_difference_with_and_without_spread(data_of):
    exact = verdict_of(data_of, "PeakFlush/x", [786.0] * 10, [738.0] * 10)
    assert exact.verdict is None  # no metric of ours has that name: no direction
    exact = verdict_of(data_of, "FlushVBucket/1/PeakBytesPerItem", [786.0] * 10, [738.0] * 10)
    assert (exact.verdict, exact.effect.q) == ("better", 0.0)
    base = [21.9 + 0.01 * (block % 3) for block in range(10)]
    other = [v + 1.2 + 0.01 * (block % 2) for block, v in enumerate(base)]
    row = verdict_of(data_of, "fragmentation_rss", base, other)
    assert (row.verdict, row.small) == ("worse", False)


def test_a_resolution_wider_than_the_margin_still_means_nothing(data_of):
    margins = {"fragmentation_rss": 0.01}
    row = verdict_of(data_of, "fragmentation_rss", [20.0] * 8, [20.05] * 8, margins=margins)
    assert row.verdict == "same"


def test_the_tests_are_against_the_nearest_change_that_means_nothing():
    """Shifted by the resolution, a sample is as significant as one without it."""
    noise = [0.1, -0.1, 0.2, -0.2, 0.05, -0.05, 0.15, -0.15]
    base = dict.fromkeys(range(8), 10.0)
    plain = paired_effect("difference", "a", base, {b: 10.3 + n for b, n in enumerate(noise)}, 1.0)
    wide = paired_effect(
        "difference", "a", base, {b: 10.8 + n for b, n in enumerate(noise)}, 1.0, resolution=0.5
    )
    assert wide.p == pytest.approx(plain.p)
    assert wide.wilcoxon_p == pytest.approx(plain.wilcoxon_p)
    assert wide.ci95 == pytest.approx(tuple(end + 0.5 for end in plain.ci95))
    apart = unpaired_effect(
        "difference", "a", {1: 10.0, 2: 10.1}, {1: 10.4, 2: 10.3}, 1.0, resolution=0.5
    )
    assert apart.p == pytest.approx(1.0)
    assert apart.ci95[0] < 0.3 < apart.ci95[1]


def test_a_value_that_is_no_part_of_a_ratio_names_its_block():
    """Blocks that were discarded are missing, so the fourth value need not be that of block 4."""
    with pytest.raises(NotARatioError, match="block 5 has 0"):
        unpaired_effect("ratio", "a", {1: 9.0, 3: 9.1}, {1: 9.0, 3: 9.0, 4: 8.0, 5: 0.0}, 0.01)


@pytest.mark.filterwarnings("error")
def test_two_experiments_of_which_one_repeats_exactly():
    steady, other = [24.0] * 3, [23.0, 24.0, 26.0]
    effect = unpaired_effect(
        "difference", "a", dict(enumerate(steady, 1)), dict(enumerate(other, 1)), 1.0
    )
    assert effect.ci95 == pytest.approx(
        stats.t.interval(0.95, 2, np.mean(other) - 24, stats.sem(other))
    )
    assert effect.p == pytest.approx(stats.ttest_1samp(other, 24.0).pvalue)


def test_every_metric_that_may_repeat_exactly_has_a_resolution():
    exact = [m for m in METRICS.values() if m.unit in ("B", "%") or m.id.startswith("latency_")]
    without = {m.id for m in exact if not m.resolution and m.direction != "none"}
    assert without == {"slow_slices"}
