"""Change points in simulated nightly series, and what counts as a series."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from perfrunner.analysis.history import change_points, history


def test_a_step_is_found_where_it_is(rng):
    values = [*rng.normal(0, 1, 30), *rng.normal(6, 1, 10)]
    ((place, p),) = change_points(values)
    assert place == 30
    assert p < 0.001


def test_two_steps_are_three_levels(rng):
    values = [*rng.normal(0, 1, 20), *rng.normal(8, 1, 20), *rng.normal(2, 1, 20)]
    assert [place for place, _ in change_points(values)] == [20, 40]


def test_a_lost_gain_is_known_after_three_nights(rng):
    values = [*rng.normal(0.03, 0.005, 40), *rng.normal(0, 0.005, 3)]
    assert [place for place, _ in change_points(values)] == [40]


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_flat_series_seldom_alarm(rng, noise):
    draw = (
        (lambda n: rng.normal(0, 1, n)) if noise == "normal" else (lambda n: rng.standard_t(2, n))
    )
    alarms = sum(bool(change_points(list(draw(60)))) for _ in range(200))
    assert alarms <= 0.05 * 200


def test_many_series_looked_at_together_alarm_no_more_often(rng):
    alarms = 0
    for _ in range(30):
        alarms += any(change_points(list(rng.normal(0, 1, 40)), series=8) for _ in range(8))
    assert alarms <= 0.1 * 30


def test_a_five_percent_step_is_found_soon(rng):
    found = 0
    for _ in range(50):
        values = [*rng.normal(0, 0.02, 30), *rng.normal(0.05, 0.02, 6)]
        found += any(28 <= place <= 32 for place, _ in change_points(values))
    assert found >= 0.8 * 50


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 20, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_short_or_constant_series_have_no_change(values):
    assert change_points(values) == []


@pytest.fixture
def nights(rng, sim):
    """nights(shifts): a finished run a night, whose variant b is shifted against a."""

    def build(shifts):
        found = []
        for night, shift in enumerate(shifts):
            data = sim(rng, blocks=6, shift=shift, sd=0.004)
            spec = {**data.experiment.spec_json, "variants": {"a": {"x": 1}, "b": {"x": 2}}}
            record = replace(
                data.experiment, id=f"e{night}", state="done", spec_json=spec,
                created_at=data.experiment.created_at + timedelta(days=night),
            )  # fmt: skip
            found.append(replace(data, experiment=record))
        return found

    return build


def test_the_effect_is_followed_and_the_baseline_itself(nights):
    found = history(nights([0.05] * 10 + [0.0] * 5), "ops_per_s")
    by_variant = {series.variant: series for series in found.series}
    lost = by_variant["b"]
    assert lost.kind == "ratio"
    assert [(level.first, level.last) for level in lost.levels] == [(0, 9), (10, 14)]
    assert lost.levels[0].value == pytest.approx(1.051, abs=0.005)
    assert lost.turn() == "worse"
    flat = by_variant["a"]
    assert flat.kind is None
    assert flat.turn() is None
    assert flat.runs[0].value == pytest.approx(1e6, rel=0.01)


def test_a_latency_that_falls_is_better(nights):
    data = nights([0.0] * 8 + [-0.2] * 8)
    renamed = [
        replace(
            e,
            trials=tuple(
                replace(t, metrics={"latency_get_p99_us": t.metrics["ops_per_s"]}) for t in e.trials
            ),
        )
        for e in data
    ]
    series = next(s for s in history(renamed, "latency_get_p99_us").series if s.variant == "b")
    assert series.turn() == "better"


def test_only_finished_runs_of_the_newest_workload_count(nights):
    data = nights([0.0] * 6)
    other = {**data[1].experiment.spec_json, "workloads": {"w": {"items": 7}}}
    data[1] = replace(data[1], experiment=replace(data[1].experiment, spec_json=other))
    data[2] = replace(data[2], experiment=replace(data[2].experiment, state="interrupted"))
    same_arms = {**data[3].experiment.spec_json, "variants": {"a": {"x": 1}, "b": {"x": 1}}}
    data[3] = replace(data[3], experiment=replace(data[3].experiment, spec_json=same_arms))
    found = history(data, "ops_per_s")
    assert found.left_out == ("e1",)
    assert [run.experiment for run in found.series[0].runs] == ["e0", "e4", "e5"]


def test_without_runs_there_is_nothing(nights):
    assert history([], "ops_per_s").series == ()
    assert history(nights([0.0]), "rss_bytes").series == ()
    assert np.isfinite(history(nights([0.0]), "ops_per_s").series[0].runs[0].value)
