"""Drift over a run: its slope and interval, against scipy.stats and against runs that drift as injected."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.quality import drift
from perfrunner.spec.metrics import metric_type


@pytest.fixture
def case(sim, rng):
    """Ten blocks of three variants in one case."""
    (results,) = clean_blocks(sim(rng, variants=("a", "b", "c")).trials).values()
    return results


def injected(case, metric, value):
    """With value(variant's place, share of the time, block) as the metric of each trial."""
    first, last = (
        float(np.mean([t.started_at.timestamp() for t in case.blocks[b]])) for b in (1, 10)
    )
    variants = [trial.variant for trial in case.blocks[1]]
    blocks = {}
    for block, trials in case.blocks.items():
        at = float(np.mean([t.started_at.timestamp() for t in trials]))
        share = (at - first) / (last - first)
        blocks[block] = tuple(
            replace(t, metrics={metric: value(variants.index(t.variant), share, block)})
            for t in trials
        )
    return replace(case, blocks=blocks)


def test_a_line_is_found_whatever_the_variants_levels_are(case):
    results = drift(
        injected(case, "ops_per_s", lambda variant, x, _: (variant + 1) * 1e5 * 0.97**x),
        metric_type("ops_per_s"),
    )
    assert results.kind == "ratio"
    assert results.blocks == 10
    assert results.estimate == pytest.approx(0.97, abs=1e-9)
    assert results.ci95 == pytest.approx((0.97, 0.97), abs=1e-6)


def test_percentages_drift_in_points(case):
    metric = metric_type("fragmentation_rss")
    results = drift(
        injected(case, metric.id, lambda variant, x, _: 20 + 5 * variant + 3 * x), metric
    )
    assert (results.kind, results.estimate) == ("difference", pytest.approx(3, abs=1e-9))


def test_the_interval_is_scipys(case):
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.02, 11)
    results = drift(
        injected(
            case, "ops_per_s", lambda variant, x, b: (variant + 1) * math.exp(0.01 * x + noise[b])
        ),
        metric_type("ops_per_s"),
    )
    at = np.array(
        [np.mean([t.started_at.timestamp() for t in own]) for own in case.blocks.values()]
    )
    x = (at - at.min()) / np.ptp(at)
    line = stats.linregress(x, 0.01 * x + noise[list(case.blocks)])
    half = stats.t.isf(0.025, 8) * line.stderr
    assert math.log(results.estimate) == pytest.approx(line.slope)
    assert [math.log(end) for end in results.ci95] == pytest.approx(
        [line.slope - half, line.slope + half]
    )


def test_the_interval_covers_what_was_injected(case):
    """The noise of a block is all its variants' at once: variants are no repetitions of it."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        host = rng.normal(0, 0.02, 11)
        made = injected(
            case, "ops_per_s",
            lambda variant, x, b, host=host: (variant + 1) * math.exp(-0.02 * x + host[b] + rng.normal(0, 0.002)),
        )  # fmt: skip
        low, high = drift(made, metric_type("ops_per_s")).ci95
        covered += low <= math.exp(-0.02) <= high
    assert 180 <= covered <= 199  # 95 % of 200, give or take three standard deviations


def test_too_few_blocks_and_values_without_a_ratio_have_none(case):
    metric = metric_type("ops_per_s")
    few = replace(case, blocks={b: own for b, own in case.blocks.items() if b <= 5})
    assert drift(few, metric) is None
    assert drift(injected(case, metric.id, lambda *_: 0.0), metric) is None
    assert drift(case, metric_type("rss_bytes")) is None
