from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from perfrunner.analysis.noise import NoiseFloor, is_aa, noise_floors


def test_the_floor_of_a_ratio_is_the_half_width_of_its_interval(data_of):
    base = [100.0, 102.0, 99.0, 101.0, 100.5, 98.0]
    again = [101.0, 100.0, 100.0, 102.0, 99.0, 99.0]
    (floor,) = noise_floors(data_of({"a": base, "b": again}))
    logs = np.log(again) - np.log(base)
    half = stats.t.ppf(0.975, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert floor.floor == pytest.approx(math.expm1(half))
    assert (floor.kind, floor.metric, floor.blocks, floor.source) == ("ratio", "ops_per_s", 6, "e1")


def test_the_floor_of_a_percentage_is_in_points(data_of):
    found = noise_floors(
        data_of({"a": [20.0, 21.0, 22.0], "b": [21.0, 21.0, 23.0]}, "fragmentation_rss")
    )
    assert [(f.kind, round(f.floor, 3)) for f in found] == [("difference", 1.434)]


def test_one_block_has_no_floor(data_of):
    assert noise_floors(data_of({"a": [1.0], "b": [2.0]})) == []


def test_a_floor_survives_its_record(data_of):
    (floor,) = noise_floors(data_of({"a": [1.0, 2.0], "b": [2.0, 3.0]}))
    assert NoiseFloor.of_record(json.loads(json.dumps(floor.record()))) == floor


def test_ten_blocks_of_one_percent_noise_have_a_floor_of_one_percent(rng, sim):
    floors = [noise_floors(sim(rng, sd=0.01))[0].floor for _ in range(200)]
    # t(0.975, 9) * 1 % * sqrt(2) / sqrt(10) = 1.01 %
    assert 0.0095 < np.mean(floors) < 0.0105


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
