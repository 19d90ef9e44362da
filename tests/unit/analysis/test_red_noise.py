"""What side by side is worth on a shared machine: the same analysis, on simulated runs with the measured noise.

Published the machine's red noise every process has luck of its own (pages, grouping): LUCK, as a hundred
milliseconds or a
minute of load leave it. Seeded: the figures do not move.
"""

from __future__ import annotations

import numpy as np
import pytest

from perfrunner.analysis import noise
from perfrunner.analysis.compare import compare
from perfrunner.measure.slices import levels
from tests.support import rednoise

ALARM = ("better", "worse")
LUCK = 0.004  # sd of a process, log rate: two of them differ by 0.6 %
BLOCKS = 10
RUNS = 100


def groups(rng, data_of, shift=0.0, *, seconds=1.0, slice_s=0.002, runs=RUNS):
    """Reports of so many experiments; the second variant is faster by `shift`."""
    for _ in range(runs):
        values = {"a": [], "b": []}
        for rates in rednoise.in_turns(rng, BLOCKS, 2, seconds, slice_s):
            luck = rng.normal(0, LUCK, 2)
            base, other = levels(np.exp(rates + luck + np.array([0.0, shift])), 0)
            values["a"].append(float(base))
            values["b"].append(float(other))
        yield compare(data_of(values))


def sequences(rng, data_of, shift=0.0, *, seconds=4.0):
    for _ in range(RUNS):
        rates = rednoise.one_by_one(rng, BLOCKS, 2, seconds) + rng.normal(0, LUCK, (BLOCKS, 2))
        base, other = np.exp(rates + np.array([0.0, shift])).T
        yield compare(data_of({"a": [float(v) for v in base], "b": [float(v) for v in other]}))


def changed_rows(reports):
    return [row for report in reports for row in report.rows if row.effect is not None]


def alarms(rows):
    return sum(row.verdict in ALARM for row in rows)


def half_width(rows):
    return float(np.median([noise.half_width(row.effect) for row in rows]))


@pytest.mark.parametrize("window", rednoise.MEASURED, ids=lambda w: f"{1000 * w[0]:g} ms")
def test_the_simulated_noise_is_the_measured_one(window):
    seconds, overall, neighbours = window
    assert rednoise.window_sd(seconds) == pytest.approx(overall, rel=0.02)
    assert rednoise.neighbour_sd(seconds) == pytest.approx(neighbours, rel=0.07)


@pytest.mark.long
def test_the_simulation_makes_the_noise_that_its_formulas_say(rng):
    run = rednoise.noise(rng, 0.001, (300, 1000))
    windows = run[:, : 22 * 45].reshape(300, 45, 22).mean(axis=-1)
    assert windows.std() == pytest.approx(rednoise.window_sd(0.022), rel=0.06)
    assert np.diff(windows, axis=1).std() == pytest.approx(rednoise.neighbour_sd(0.022), rel=0.04)


@pytest.mark.long
def test_groups_hold_the_alarm_rate_and_find_one_percent(rng, data_of):
    same = changed_rows(groups(rng, data_of))
    assert len(same) == RUNS
    assert alarms(same) <= 0.11 * RUNS
    assert half_width(same) <= 0.007
    slower = changed_rows(groups(rng, data_of, shift=np.log(0.99)))
    assert sum(row.verdict == "worse" for row in slower) >= 0.9 * RUNS


@pytest.mark.long
def test_trials_one_by_one_hold_the_alarm_rate_and_hardly_ever_find_one_percent(rng, data_of):
    same = changed_rows(sequences(rng, data_of))
    assert alarms(same) <= 0.11 * RUNS
    assert half_width(same) >= 0.05, "four times the load of a group"
    slower = changed_rows(sequences(rng, data_of, shift=np.log(0.99)))
    assert sum(row.verdict == "worse" for row in slower) <= 0.11 * RUNS


def test_short_slices_are_what_makes_a_group_precise(rng, data_of):
    short = half_width(changed_rows(groups(rng, data_of, runs=15)))
    long = half_width(changed_rows(groups(rng, data_of, slice_s=0.1, runs=15)))
    assert long >= 3 * short
