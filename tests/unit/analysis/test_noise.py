from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.compare import compare
from perfrunner.analysis.noise import NoiseFloor, is_aa, noise_floors
from perfrunner.analysis.verdict import smallest_visible


def power(n, sd, shift):
    """Of the t test over n blocks at 5 %."""
    critical = stats.t.isf(0.025, n - 1)
    return stats.nct.sf(critical, n - 1, shift / sd * math.sqrt(n))


def test_the_floor_of_a_ratio_is_the_change_that_is_found_four_times_of_five(data_of):
    base = [100.0, 102.0, 99.0, 101.0, 100.5, 98.0]
    again = [101.0, 100.0, 100.0, 102.0, 99.0, 99.0]
    (floor,) = noise_floors(data_of({"a": base, "b": again}))
    logs = np.log(again) - np.log(base)
    assert power(6, logs.std(ddof=1), math.log1p(floor.floor)) == pytest.approx(0.8)
    assert (floor.kind, floor.metric, floor.blocks, floor.source) == ("ratio", "ops_per_s", 6, "e1")


def test_the_floor_of_a_percentage_is_in_points(data_of):
    (floor,) = noise_floors(
        data_of({"a": [20.0, 21.0, 22.0], "b": [21.0, 21.0, 23.0]}, "fragmentation_rss")
    )
    assert floor.kind == "difference"
    sd, resolution = np.std([1.0, 0.0, 1.0], ddof=1), 0.1
    assert power(3, sd, floor.floor - resolution) == pytest.approx(0.8)


def test_what_a_run_sees_is_found_as_often_as_it_says(rng, sim):
    """Floor, "would see" and "would settle" mean the same 80 %."""
    (effect,) = [row.effect for row in compare(sim(rng)).rows if row.effect]
    known = replace(effect, sd=0.01 * math.sqrt(2))  # not estimated from ten blocks
    shift = math.log1p(smallest_visible(known))
    results = [
        row.verdict == "better"
        for _ in range(300)
        for row in compare(sim(rng, sd=0.01, shift=shift)).rows
        if row.effect
    ]
    assert 0.74 <= np.mean(results) <= 0.86


def test_times_that_repeat_to_the_nanosecond_do_not_show_that_nothing_moves(data_of):
    """Three blocks in which a percentile of single operations was the same whole number."""
    (floor,) = noise_floors(data_of({"a": [0.412] * 3, "b": [0.412] * 3}, "Latency/Get/p95_us"))
    assert floor.floor == pytest.approx(0.003)


def test_the_floor_is_corrected_for_the_tests_of_its_family(rng, sim):
    """A report also corrects throughput, the total CPU next to it, and the rest separately."""
    others = ("latency_get_p50_us", "latency_get_p99_us", "rss_bytes")
    data = sim(rng, metrics=("ops_per_s", "total_cpu_us_per_op", *others))
    floors = {floor.metric: floor.floor for floor in noise_floors(data)}
    effects = {row.metric.id: row.effect for row in compare(data).rows if row.effect is not None}
    assert floors == {
        metric: smallest_visible(effect, 0.05 / (3 if metric in others else 1))
        for metric, effect in effects.items()
    }


def test_one_block_has_no_floor(data_of):
    assert noise_floors(data_of({"a": [1.0], "b": [2.0]})) == []


def test_a_floor_survives_its_record(data_of):
    (floor,) = noise_floors(data_of({"a": [1.0, 2.0], "b": [2.0, 3.0]}))
    assert NoiseFloor.of_record(json.loads(json.dumps(floor.record()))) == floor


def test_ten_blocks_of_one_percent_noise_have_a_floor_of_one_and_a_half_percent(rng, sim):
    floors = [noise_floors(sim(rng, sd=0.01))[0].floor for _ in range(200)]
    # 3.16 standard errors: 3.16 * 1 % * sqrt(2) / sqrt(10) = 1.41 %
    assert 0.0133 < np.mean(floors) < 0.0149


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ({"a": {"name": "a", "env": {}}, "a-again": {"name": "a-again", "env": {}}}, True),
        ({"a": {"name": "a", "env": {}}, "b": {"name": "b", "env": {"X": "1"}}}, False),
        ({"a": {"name": "a"}}, False),
        ({"a": {"name": "a"}, "b": {"name": "b"}, "c": {"name": "c"}}, False),
        (None, False),
    ],
)
def test_what_an_aa_experiment_is(variants, expected):
    assert is_aa({"variants": variants}) is expected
