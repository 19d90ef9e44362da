"""How often the analysis is wrong, on data whose truth is known (seeded: the figures do not move)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.compare import compare
from perfrunner.analysis.estimate import adjust, paired_effect, summarise

ALARM = ("better", "worse")
METRICS = (
    "ops_per_s", "ops_per_s_p90", "latency_get_p50_us", "latency_get_p99_us", "latency_set_p50_us",
    "latency_set_p99_us", "server_cpu_us_per_op", "rss_bytes", "mem_used_bytes", "mapped_bytes",
)  # fmt: skip


def verdicts(reports):
    return [row.verdict for report in reports for row in report.rows if row.effect is not None]


@pytest.mark.long
def test_at_most_eleven_of_a_hundred_verdicts_alarm_on_a_a_data(rng, sim):
    results = verdicts(compare(sim(rng)) for _ in range(300))
    assert len(results) == 300
    assert sum(v in ALARM for v in results) <= 0.11 * 300
    assert sum(v in ALARM for v in results) >= 2  # an analysis that never alarms is none


@pytest.mark.long
def test_a_whole_report_on_a_a_data_seldom_alarms_at_all(rng, sim):
    reports = [compare(sim(rng, metrics=METRICS, variants=("a", "b", "c"))) for _ in range(60)]
    alarmed = sum(any(row.verdict in ALARM for row in report.rows) for report in reports)
    assert alarmed <= 0.15 * 60  # uncorrected, 20 tests: 64 %


@pytest.mark.parametrize("shift", [0.02, -0.02])
def test_a_injected_two_percent_shift_is_found_at_ten_blocks(rng, sim, shift):
    results = verdicts(compare(sim(rng, shift=shift)) for _ in range(200))
    expected = "better" if shift > 0 else "worse"
    assert sum(v == expected for v in results) >= 0.9 * 200


@pytest.mark.long
def test_the_shift_of_a_primary_metric_is_found_next_to_twenty_unchanged_ones(rng, sim):
    """One family for all tests would find it in about half of the reports."""
    hits = 0
    for _ in range(60):
        data = sim(rng, metrics=METRICS, variants=("a", "c", "b"), shift=0.0)
        moved = [
            t if t.variant != "b" else _scaled(t, "ops_per_s", np.exp(0.02)) for t in data.trials
        ]
        report = compare(type(data)(data.experiment, (), tuple(moved)))
        hits += any(r.verdict == "better" for r in report.rows if r.metric.id == "ops_per_s")
    assert hits >= 0.85 * 60


def _scaled(trial, metric, factor):
    return type(trial)(
        **{**trial.__dict__, "metrics": {**trial.metrics, metric: trial.metrics[metric] * factor}}
    )


@pytest.mark.long
def test_drift_does_no_harm_when_the_variants_are_interleaved(rng, sim):
    drifting = verdicts(compare(sim(rng, drift=0.06)) for _ in range(200))
    assert sum(v in ALARM for v in drifting) <= 0.11 * 200
    one_after_the_other = verdicts(
        compare(sim(rng, drift=0.06, interleaved=False)) for _ in range(50)
    )
    assert sum(v in ALARM for v in one_after_the_other) >= 0.5 * 50  # why the blocks are needed


@pytest.mark.long
@pytest.mark.parametrize("draw", ["normal", "t3", "bimodal"])
def test_the_interval_covers_the_truth(rng, draw):
    covered, runs, n, truth = 0, 600, 8, np.log(1.01)
    for _ in range(runs):
        noise = {
            "normal": lambda: rng.normal(0, 0.01, (2, n)),
            "t3": lambda: 0.006 * rng.standard_t(3, (2, n)),
            "bimodal": lambda: rng.choice([-0.01, 0.01], (2, n)) + rng.normal(0, 0.003, (2, n)),
        }[draw]()
        base = dict(enumerate(np.exp(noise[0])))
        other = dict(enumerate(np.exp(noise[1] + truth)))
        effect = paired_effect("ratio", "a", base, other, 0.01)
        covered += effect.ci95[0] <= 1.01 <= effect.ci95[1]
    assert 0.925 <= covered / runs <= 0.985


def test_the_interval_of_a_mean_is_students(rng):
    values = rng.normal(100, 3, 9)
    summary = summarise(dict(enumerate(values, 1)))
    half = stats.t.isf(0.025, 8) * values.std(ddof=1) / 3
    assert summary.ci95 == pytest.approx((values.mean() - half, values.mean() + half))
    assert summary.half_width == pytest.approx(half)


def test_adjust_is_benjamini_hochberg():
    """Worked by hand: p·m/rank, then the running minimum from the largest."""
    assert adjust([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert adjust([]) == []
