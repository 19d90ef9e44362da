"""Change points in simulated nightly series, and what counts as a series."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from perfrunner.analysis.environment import same_hosts
from perfrunner.analysis.history import history
from perfrunner.analysis.nights import keep_night, night_of
from perfrunner.analysis.nights import nights as read_nights
from perfrunner.analysis.series import changes
from perfrunner.report.history import history_document, level_text
from perfrunner.results import ExperimentSummary
from perfrunner.sources.model import SOURCES_FACT, ResolvedSource, as_record

LOOK = 1e-4  # what a series of a spec with a handful of them may have


def test_a_step_is_found_where_it_is(rng):
    values = [*rng.normal(0, 1, 30), *rng.normal(6, 1, 10)]
    (change,) = changes(values, LOOK)
    assert (change.first, change.rose) == (30, True)
    assert 30 < change.known <= 34


def test_two_steps_are_three_levels(rng):
    values = [*rng.normal(0, 1, 20), *rng.normal(8, 1, 20), *rng.normal(2, 1, 20)]
    assert [change.first for change in changes(values, LOOK)] == [20, 40]


@pytest.mark.parametrize("nights", [10, 40])
def test_a_lost_expected_gain_is_known_after_three_nights(rng, nights):
    values = [*rng.normal(0.03, 0.003, nights), *rng.normal(0, 0.003, 3)]
    (change,) = changes(values, LOOK)
    assert (change.first, change.known) == (nights, nights + 2)


def test_a_small_loss_is_known_in_the_end(rng):
    """One standard deviation: five nights hardly show it, twenty do."""
    values = [*rng.normal(0, 1, 60), *rng.normal(-1, 1, 60)]
    (change, *_) = changes(values, LOOK)
    assert not change.rose
    assert 40 <= change.first <= 80  # so small a step is not placed to the night


def test_what_was_reported_on_a_night_is_not_reported_otherwise_later(rng):
    values = list(rng.normal(0, 1, 60)) + list(rng.normal(-2, 1, 60)) + list(rng.normal(1, 1, 60))
    whole = changes(values, 1e-3)
    assert len(whole) >= 2
    for night in range(0, len(values), 7):
        known = [change for change in whole if change.known <= night]
        assert changes(values[: night + 1], 1e-3) == known


@pytest.mark.parametrize("odd", [30.0, -1e6])
def test_one_odd_night_is_no_change(rng, odd):
    values = rng.normal(0, 1, 80)
    values[50] = odd
    assert changes(list(values), LOOK) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 40, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_short_or_constant_series_have_no_change(values):
    assert changes(values, LOOK) == []


def test_a_metric_that_repeats_exactly_changes_by_more_than_its_resolution():
    exact = [738.0] * 30 + [786.0] * 5
    ((first, known),) = [(c.first, c.known) for c in changes(exact, LOOK, resolution=0.5)]
    assert (first, known) == (30, 32)
    assert changes([738.0] * 30 + [738.1] * 30, LOOK, resolution=0.5) == []


@pytest.fixture
def nights(rng, sim):
    """nights(shifts): a finished run a night, whose variant b is shifted against a."""

    def build(shifts):
        matches = []
        for night, shift in enumerate(shifts):
            data = sim(rng, blocks=6, shift=shift, sd=0.004)
            spec = {**data.experiment.spec_json, "variants": {"a": {"x": 1}, "b": {"x": 2}}}
            record = replace(
                data.experiment, id=f"e{night}", state="done", spec_json=spec,
                created_at=data.experiment.created_at + timedelta(days=night),
            )  # fmt: skip
            matches.append(replace(data, experiment=record))
        return matches

    return build


def followed(data, metric):
    done = [e for e in data if e.experiment.state == "done"]
    return history([night_of(e, [metric]) for e in done], metric)


def test_the_effect_is_followed_and_the_baseline_itself(nights):
    matches = followed(nights([0.05] * 12 + [0.0] * 5), "ops_per_s")
    by_variant = {series.variant: series for series in matches.series}
    lost = by_variant["b"]
    assert lost.kind == "ratio"
    assert [(level.first, level.last) for level in lost.levels] == [(0, 11), (12, 16)]
    assert lost.levels[0].value == pytest.approx(1.051, abs=0.005)
    assert lost.verdict() == "worse"
    flat = by_variant["a"]
    assert flat.kind is None
    assert flat.verdict() is None
    assert flat.runs[0].value == pytest.approx(1e6, rel=0.01)


def test_a_latency_that_falls_is_better(nights):
    data = nights([0.0] * 12 + [-0.2] * 8)
    renamed = [
        replace(
            e,
            trials=tuple(
                replace(t, metrics={"latency_get_p99_us": t.metrics["ops_per_s"]}) for t in e.trials
            ),
        )
        for e in data
    ]
    series = next(s for s in followed(renamed, "latency_get_p99_us").series if s.variant == "b")
    assert series.verdict() == "better"


def test_only_finished_runs_of_the_newest_workload_count(nights):
    data = nights([0.0] * 6)
    other = {**data[1].experiment.spec_json, "workloads": {"w": {"items": 7}}}
    data[1] = replace(data[1], experiment=replace(data[1].experiment, spec_json=other))
    data[2] = replace(data[2], experiment=replace(data[2].experiment, state="interrupted"))
    matches = followed(data, "ops_per_s")
    assert matches.left_out == ("e1",)
    assert [run.experiment for run in matches.series[0].runs] == ["e0", "e3", "e4", "e5"]


def test_without_runs_there_is_nothing(nights):
    assert history([], "ops_per_s").series == ()
    assert followed(nights([0.0]), "rss_bytes").series == ()
    assert np.isfinite(followed(nights([0.0]), "ops_per_s").series[0].runs[0].value)


def test_variants_without_a_trial_of_the_baseline_have_no_series(trial, data):
    """Two variants in two cases: more rows than variants, as where cases are pooled."""
    spec = {"workloads": {"w": {}, "v": {}}}
    trials = [
        trial(block, variant, {"ops_per_s": 1e6 + block}, workload=workload)
        for block in range(1, 4)
        for variant in "bc"
        for workload in "wv"
    ]
    matches = followed([data(trials, tuple("abc"), **spec)], "ops_per_s")
    assert (matches.series, matches.alarms) == ((), ())


def test_a_change_is_news_on_the_night_it_becomes_known_and_never_again(nights):
    """Whenever that is: a loss that became known on its sixth night was reported on none."""
    data = nights([0.05] * 14 + [0.0] * 8)
    worse = [
        night
        for night in range(len(data))
        for alarm in followed(data[: night + 1], "ops_per_s").news
        if alarm.verdict == "worse"
    ]
    assert len(worse) == 1
    assert 16 <= worse[0] <= 19
    (alarm,) = followed(data, "ops_per_s").alarms
    assert (alarm.variant, alarm.first, alarm.verdict) == ("b", "e14", "worse")
    assert followed(data, "ops_per_s").news == ()


def changed(data, **changes):
    """The run with another spec (`spec`), other hosts (`hosts`)."""
    record = data.experiment
    spec = {**record.spec_json, **changes.pop("spec", {})}
    return replace(data, experiment=replace(record, spec_json=spec, facts=changes))


HERE = {"hostname": "a", "cpus": 2, "kernel": "6.1", "memory_bytes": 1000, "load_average": 0.1}
HOST = {"hosts": {"here": HERE}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hosts": {"here": {**HOST["hosts"]["here"], "cpus": 4}}}, "host here cpus: 4 or 2"),
        ({"hosts": {"there": HOST["hosts"]["here"]}}, "host there hostname: a or none"),
        (
            {**HOST, "spec": {"cluster": {"engine_nodes": ["n2"]}}},
            "cluster engine_nodes: n2 or none",
        ),
        (
            {**HOST, "spec": {"cluster": {"engine_nodes": ["n2"], "replicas": 1}}},
            "cluster engine_nodes: n2 or none; cluster replicas: 1 or 0",
        ),
        ({**HOST, "spec": {"relink": "never"}}, "relink: never or auto"),
        ({"hosts": {"here": {**HOST["hosts"]["here"], "hostname": "b"}}}, "host here hostname: b"),
        ({"hosts": {"here": {**HOST["hosts"]["here"], "memory_bytes": 980}}}, "host here memory"),
        ({**HOST, "spec": {"engine": {"threads": 8}}}, "engine threads: 8 or 2"),
        ({**HOST, "spec": {"schedule": "sequential"}}, "schedule: sequential or interleaved"),
        ({**HOST, "spec": {"variants": {"a": {"x": 1}, "b": {"x": 3}}}}, "variant b x: 3 or 2"),
        ({**HOST, "spec": {"workloads": {"w": {"items": 7}}}}, "workload w items: 7 or none"),
    ],
)
def test_only_what_was_measured_alike_is_one_series(nights, change, why):
    runs = [changed(run, **HOST) for run in nights([0.0] * 4)]
    runs[1] = changed(runs[1], **change)
    matches = followed(runs, "ops_per_s")
    assert matches.left_out == ("e1",)
    assert matches.why[0].startswith(f"e1: {why}")
    (series,) = (s for s in matches.series if s.variant == "b")
    assert [run.experiment for run in series.runs] == ["e0", "e2", "e3"]


@pytest.mark.parametrize(("then", "now", "left_out"), [(40, 10, 2), (20, 10, 0), (10, 40, 0)])
def test_runs_with_many_more_blocks_do_not_define_the_noise_of_the_newest(
    nights, then, now, left_out
):
    """Otherwise the wider noise of few blocks is reported as changes."""
    runs = [changed(run, **HOST, spec={"blocks": then}) for run in nights([0.0] * 3)]
    runs[2] = changed(runs[2], **HOST, spec={"blocks": now})
    matches = followed(runs, "ops_per_s")
    assert len(matches.left_out) == left_out
    assert [line.partition(": ")[2] for line in matches.why] == ["blocks: 40 or 10"] * (
        left_out > 0
    )


def test_what_changes_without_a_matter_leaves_nothing_out(nights):
    runs = [changed(run, **HOST) for run in nights([0.0] * 3)]
    hosts = {"here": {**HOST["hosts"]["here"], "load_average": 2.0, "boot_id": "x"}}
    spec = {
        "blocks": 9,
        "description": "new",
        "engine": {"threads": 2, "port": 7},
    }  # 2 is the default
    runs[0] = changed(runs[0], hosts=hosts, spec=spec)
    assert followed(runs, "ops_per_s").left_out == ()


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"hostname": "3f2a", "container": True}, {"hostname": "9bc0", "container": True}),
        ({"memory_bytes": 995}, {"memory_bytes": 1000}),
    ],
)
def test_what_differs_from_one_start_to_the_next_is_the_same_host(nights, then, now):
    """A container's name is its id; the kernel counts memory again at each boot."""
    runs = [changed(run, hosts={"here": {**HERE, **now}}) for run in nights([0.0] * 3)]
    runs[0] = changed(runs[0], hosts={"here": {**HERE, **then}})
    assert followed(runs, "ops_per_s").left_out == ()
    assert same_hosts({"here": {**HERE, **then}}, {"here": {**HERE, **now}})
    assert not same_hosts({"here": {**HERE, **then}}, {"here": {**HERE, **now, "cpus": 4}})


def test_a_new_variant_does_not_end_the_series_of_the_others(nights):
    runs = [changed(run, **HOST) for run in nights([0.0] * 3)]
    runs[2] = changed(runs[2], **HOST, spec={"variants": {"a": {"x": 1}, "b": {"x": 2}, "c": {}}})
    matches = followed(runs, "ops_per_s")
    assert matches.left_out == ()
    assert {len(series.runs) for series in matches.series} == {3}


def source(sha, **more):
    """A variant's source as an experiment's facts hold it."""
    known = ResolvedSource("main", "0" * 64, "/engine", 1, True, sha, f"title of {sha[:3]}", **more)
    return as_record(known)


def test_a_level_says_between_which_commits_it_began(nights):
    runs = []
    for night, run in enumerate(nights([0.05] * 12 + [0.0] * 5)):
        mine = source("2" * 40, dirty=("a.cc",)) if night >= 12 else source("1" * 40)
        runs.append(
            changed(run, **{SOURCES_FACT: {"variants": {"a": source("1" * 40), "b": mine}}})
        )
    matches = followed(runs, "ops_per_s")
    lost = next(s for s in matches.series if s.variant == "b")
    assert (lost.runs[11].commit, lost.runs[12].commit) == ("1" * 12, "2" * 12 + "-dirty")
    assert level_text(lost, 1).endswith('commit 111111111111 → 222222222222-dirty "title of 222"')
    assert "commit" not in level_text(lost, 0)
    series = next(s for s in history_document([matches])["series"] if s["variant"] == "b")
    assert series["runs"][12]["title"] == "title of 222"


def test_a_run_of_an_older_store_has_no_commit(nights):
    series = followed(nights([0.05] * 12 + [0.0] * 5), "ops_per_s").series
    assert {run.commit for single in series for run in single.runs} == {None}
    assert not any(
        "commit" in level_text(single, n) for single in series for n in range(len(single.levels))
    )


def test_what_a_run_came_to_is_kept_when_it_ends(nights, tmp_path):
    (run,) = nights([0.05])
    discarded = replace(
        run, trials=(*run.trials, replace(run.trials[-1], status="discarded", attempt=2))
    )
    keep_night(discarded, tmp_path)
    wanted = ["ops_per_s"]
    ended = ExperimentSummary(run.experiment, len(run.trials), 1, 0)

    def load(_):
        pytest.fail("the store is not asked")

    assert read_nights([ended], load, wanted, tmp_path) == [night_of(discarded, wanted)]
    longer = replace(ended, ok=ended.ok + 2)
    assert read_nights([longer], lambda _: run, wanted, tmp_path) == [night_of(run, wanted)]


def test_what_a_run_came_to_is_kept_of_finished_ones_only(nights, tmp_path):
    (run,) = nights([0.05])
    keep_night(replace(run, experiment=replace(run.experiment, state="failed")), tmp_path)
    keep_night(run, None)
    assert list(tmp_path.iterdir()) == []
