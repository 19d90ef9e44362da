"""No rule may look at the variant: simulated, with a client that is busier the faster its engine answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.analysis.noise import noise_floors
from perfrunner.analysis.other_metrics import moved_with
from perfrunner.experiment.trial.outcome import discarded_reasons, group_reasons
from perfrunner.export import openmetrics_text
from perfrunner.measure.client import ClientCost, ClientReport, Phase
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured

BLOCKS, FASTER, SD = 10, 0.03, 0.02
FACTORS = {"a": 0.0, "b": FASTER}


def measured(rate, busy, waits):
    phase = Phase(ops=100, gets=50, sets=50, misses=0, errors={}, seconds=1.0)
    report = ClientReport("pillowfight", None, phase, ClientCost(1.0, 1.0, 1, busy), None, False)
    facts = {"client_waits": waits, "client_busy": busy}
    return Measured(metrics={"ops_per_s": rate}, report=report, facts=facts)


def one_block(rng, *, busy_at=0.93):
    """Both variants. A host that takes CPU from the load slows both, more or less; each has luck of its own."""
    stolen = rng.exponential(0.15)
    variants = {}
    for name, shift in FACTORS.items():
        log_rate = shift - 0.1 * stolen + rng.normal(0, SD)
        busy = min(1.0, busy_at * math.exp(log_rate))
        waits = float(np.clip(stolen + rng.normal(0, 0.05), 0, 1))
        variants[name] = measured(1e6 * math.exp(log_rate), busy, waits)
    return variants


def blocks_that_count(rng, is_discarded):
    """Until there are enough; a discarded block is redone, all variants, as the runner does."""
    kept = []
    while len(kept) < BLOCKS:
        variants = one_block(rng)
        if not is_discarded(variants):
            kept.append(variants)
    return kept


def by_the_rules(variants):
    limits = Limits(client_waits=0.3)
    own = [reason for variant in variants.values() for reason in discarded_reasons(variant, limits)]
    return bool(own or group_reasons(list(variants.values()), limits))


def by_the_busy_client(variants):
    """The rule as it was."""
    return any(variant.report.client.busiest_thread_busy > 0.95 for variant in variants.values())


def covered(rng, trial, data, is_discarded, runs=150):
    """(share of runs whose interval holds the truth, mean estimate of the logarithm)."""
    inside, estimates = 0, []
    for _ in range(runs):
        trials = [
            trial(block, name, dict(variant.metrics))
            for block, variants in enumerate(blocks_that_count(rng, is_discarded), 1)
            for name, variant in variants.items()
        ]
        (row,) = [row for row in compare(data(trials)).rows if row.effect]
        inside += row.effect.ci95[0] <= math.exp(FASTER) <= row.effect.ci95[1]
        estimates.append(math.log(row.effect.estimate))
    return inside / runs, float(np.mean(estimates))


def test_discarding_by_the_rules_leaves_the_estimate_true(rng, trial, data):
    share, mean = covered(rng, trial, data, by_the_rules)
    assert share >= 0.9
    assert mean == pytest.approx(FASTER, abs=0.002)
    discarded = [by_the_rules(one_block(rng)) for _ in range(400)]
    assert 0.05 < sum(discarded) / len(discarded) < 0.4  # it is the rule that was tried


def test_discarding_by_a_busy_client_keeps_the_slow_moments_of_the_faster_variant(rng, trial, data):
    """Why the rule is gone."""
    share, mean = covered(rng, trial, data, by_the_busy_client)
    assert share < 0.9
    assert mean < FASTER - 0.004


def case_of(trial, data, busy, metric="ops_per_s", waits=0.02, limit=0.95):
    trials = [
        trial(block, name, {metric: 100.0 + block + 9 * (name == "b")},
              facts={"client_busy": busy[name], "client_waits": waits})
        for name in "ab" for block in range(1, 9)
    ]  # fmt: skip
    return compare(data(trials, primary=[metric], limits={"client_busy": limit}))


@pytest.mark.parametrize(
    ("metric", "busy", "verdict"),
    [
        ("ops_per_s", {"a": 0.5, "b": 0.6}, "better"),
        ("ops_per_s", {"a": 0.5, "b": 0.97}, "not comparable"),
        ("ops_per_s", {"a": 0.97, "b": 0.5}, "not comparable"),
        ("latency_get_p50_us", {"a": 0.5, "b": 0.97}, "not comparable"),
        (
            "fragmentation_rss",
            {"a": 0.97, "b": 0.97},
            "worse",
        ),  # memory is the engine's all the same
    ],
)
def test_a_case_with_a_saturated_client_has_no_rate(trial, data, metric, busy, verdict):
    (row,) = [row for row in case_of(trial, data, busy, metric).rows if row.effect]
    assert row.verdict == verdict
    assert ("97% busy" in row.reason) == (verdict == "not comparable")


@pytest.mark.parametrize(("waits", "warned"), [(0.02, False), (0.6, True)])
def test_a_load_that_mostly_waited_for_a_cpu_is_reported_before_any_number(
    trial, data, waits, warned
):
    results = case_of(trial, data, {"a": 0.5, "b": 0.5}, waits=waits).warnings
    assert any("60% of the slices the load waited" in line for line in results) == warned


def test_the_rate_of_a_saturated_client_has_not_changed_either(trial, data):
    """It is listed neither among the other metrics that changed, nor in a comparison of two runs as a number."""
    runs = [
        data(
            [
                trial(block, variant,
                      {"rss_bytes": 100.0, "ops_per_s": rate + block, "server_cpu_us_per_op": rate},
                      facts={"client_busy": busy})
                for block in range(1, 11)
                for variant, rate in (("a", 1000.0), ("b", 1050.0))
            ],
            primary=["rss_bytes"], limits={"client_busy": 0.95},
        )
        for busy in (0.9, 0.99)
    ]  # fmt: skip
    moved = [
        {row.metric.id for row in moved_with(comparison, comparison.cases[0], "b")}
        for comparison in map(compare, runs)
    ]
    assert moved == [{"ops_per_s", "server_cpu_us_per_op"}, {"server_cpu_us_per_op"}]
    for first, second in (runs, runs[::-1]):
        rows = compare_unpaired(first, second, "a", "b").rows
        (rate,) = [row for row in rows if row.metric.id == "ops_per_s" and row.effect]
        assert rate.verdict == "not comparable"
        assert "saturated" in rate.reason


def test_fewer_blocks_than_a_verdict_needs_change_no_other_metric(trial, data):
    values = {"a": 1.0, "b": 1.05}
    trials = [
        trial(block, variant, {"ops_per_s": 100.0, "vsz_bytes": value, "rss_bytes": value})
        for block in range(1, 6)
        for variant, value in values.items()
    ]
    comparison = compare(data(trials))
    assert moved_with(comparison, comparison.cases[0], "b") == []


@pytest.mark.parametrize("busy", [0.5, 0.97])
def test_the_rate_of_a_saturated_client_is_neither_a_change_nor_a_floor_elsewhere(
    trial, data, busy
):
    trials = [
        trial(block, name, {"ops_per_s": 100.0 + block + (name == "b") / block},
              facts={"client_busy": busy})
        for name in "ab" for block in range(1, 9)
    ]  # fmt: skip
    run = data(trials, limits={"client_busy": 0.95})
    known = busy < 0.95
    assert ("perfrunner_change{" in openmetrics_text([run])) is known
    assert bool(noise_floors(run)) is known
