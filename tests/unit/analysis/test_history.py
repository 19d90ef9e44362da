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


def changed(data, **changes):
    """The run with another spec (`spec`), other hosts (`hosts`)."""
    record = data.experiment
    spec = {**record.spec_json, **changes.pop("spec", {})}
    return replace(data, experiment=replace(record, spec_json=spec, facts=changes))


HOST = {"hosts": {"here": {"hostname": "a", "cpus": 2, "kernel": "6.1", "load_average": 0.1}}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hosts": {"here": {**HOST["hosts"]["here"], "cpus": 4}}}, "host here cpus: 4 or 2"),
        ({"hosts": {"there": HOST["hosts"]["here"]}}, "host there hostname: a or none"),
        (
            {**HOST, "spec": {"cluster": {"engine_nodes": ["n2"]}}},
            "cluster engine_nodes: n2 or none",
        ),
        ({**HOST, "spec": {"engine": {"threads": 8}}}, "engine threads: 8 or 2"),
        ({**HOST, "spec": {"schedule": "sequential"}}, "schedule: sequential or side-by-side"),
        ({**HOST, "spec": {"variants": {"a": {"x": 1}, "b": {"x": 3}}}}, "variant b x: 3 or 2"),
        ({**HOST, "spec": {"workloads": {"w": {"items": 7}}}}, "workload w items: 7 or none"),
    ],
)
def test_only_what_was_measured_alike_is_one_series(nights, change, why):
    runs = [changed(run, **HOST) for run in nights([0.0] * 4)]
    runs[1] = changed(runs[1], **change)
    found = history(runs, "ops_per_s")
    assert found.left_out == ("e1",)
    assert found.why[0].startswith(f"e1: {why}")
    (series,) = (s for s in found.series if s.variant == "b")
    assert [run.experiment for run in series.runs] == ["e0", "e2", "e3"]


def test_what_changes_without_a_matter_leaves_nothing_out(nights):
    runs = [changed(run, **HOST) for run in nights([0.0] * 3)]
    hosts = {"here": {**HOST["hosts"]["here"], "load_average": 2.0, "boot_id": "x"}}
    spec = {
        "blocks": 9,
        "description": "new",
        "engine": {"threads": 2, "port": 7},
    }  # 2 is the default
    runs[0] = changed(runs[0], hosts=hosts, spec=spec)
    assert history(runs, "ops_per_s").left_out == ()


def test_a_new_variant_does_not_end_the_series_of_the_others(nights):
    runs = [changed(run, **HOST) for run in nights([0.0] * 3)]
    runs[2] = changed(runs[2], **HOST, spec={"variants": {"a": {"x": 1}, "b": {"x": 2}, "c": {}}})
    found = history(runs, "ops_per_s")
    assert found.left_out == ()
    assert {len(series.runs) for series in found.series} == {3}


def test_host_facts_are_those_that_hold_still():
    from perfrunner.analysis.circumstances import HOST_FACTS
    from perfrunner.cluster import STABLE_FACTS

    assert {*HOST_FACTS} == {"hostname", *STABLE_FACTS} - {"boot_id"}
