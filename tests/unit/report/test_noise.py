"""The noise floor in a report: of an A/A experiment, and of one that came after it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfrunner.analysis.noise import noise_floors
from perfrunner.report import build_report, render


def context(report, label):
    return next(fact.value for fact in report.context if fact.label == label)


@pytest.fixture
def aa(make):
    return make(variants=("glibc", "glibc-again"), discarded_block=None)


def test_without_one_the_report_says_how_to_get_it(report):
    assert context(report, "noise floor") == (
        "unknown for these workloads on this host: measure it with perfrunner aa SPEC"
    )


def test_an_aa_experiment_prints_its_own_floor(aa):
    text = context(build_report(aa), "noise floor")
    assert text.startswith("ops_per_s ±")
    assert "% pillowfight · persistent" in text
    assert text.endswith("(8 A/A blocks, demo-20261120)")


def test_a_later_experiment_prints_the_floor_that_it_found(aa, data):
    records = [floor.record() for floor in noise_floors(aa)]
    later = replace(data, experiment=replace(data.experiment, facts={"noise_floor": records}))
    text = context(build_report(later), "noise floor")
    assert text == context(build_report(aa), "noise floor")
    for form in ("terminal", "markdown"):
        assert "A/A blocks" in " ".join(render(build_report(later), form).split())
    document = json.loads(render(build_report(later), "json"))
    assert document["facts"]["noise_floor"] == records


def test_a_floor_of_another_workload_is_not_shown(aa, data):
    records = [{**floor.record(), "workload": "other"} for floor in noise_floors(aa)]
    later = replace(data, experiment=replace(data.experiment, facts={"noise_floor": records}))
    assert "unknown" in context(build_report(later), "noise floor")


def test_a_floor_of_an_unknown_metric_and_a_huge_floor_are_shown(aa, data):
    record = noise_floors(aa)[0].record()
    records = [
        {**record, "metric": "no_longer_measured", "kind": "difference", "floor": 3.0},
        {**record, "metric": "ops_per_s", "floor": 1.9e30},
    ]
    spec = {**data.experiment.spec_json, "primary": ["no_longer_measured", "ops_per_s"]}
    trials = [replace(t, metrics={**t.metrics, "no_longer_measured": 1.0}) for t in data.trials]
    later = replace(data.experiment, facts={"noise_floor": records}, spec_json=spec)
    text = context(
        build_report(replace(data, experiment=later, trials=tuple(trials))), "noise floor"
    )
    assert "no_longer_measured ±3.0 " in text
    assert "ops_per_s a factor of 2e+30 " in text


def test_a_build_that_differs_from_itself_is_a_warning(aa):
    shifted = tuple(
        replace(t, metrics={**t.metrics, "ops_per_s": t.metrics["ops_per_s"] * 1.2})
        if t.variant == "glibc-again"
        else t
        for t in aa.trials
    )
    warnings = build_report(replace(aa, trials=shifted)).warnings
    assert any("ops_per_s is better although the builds are identical" in w for w in warnings)
    assert not any("although the builds are identical" in w for w in build_report(aa).warnings)
