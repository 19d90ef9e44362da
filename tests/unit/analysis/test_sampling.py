"""What the samplers cost: on simulated trials of which the truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from perfrunner.analysis.model import Cell
from perfrunner.analysis.sampling import failed_checks, sampling_costs
from perfrunner.results import ExperimentData


def check(bare: float, sampled: float = 100.0, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "w", "bucket": "-", "variant": "a", "status": "ok", "reason": "",
        "sampled": {"ops_per_s": sampled}, "bare": {"ops_per_s": bare}, **changes,
    }  # fmt: skip


Experiment = Callable[..., ExperimentData]


@pytest.fixture
def experiment(data_of: Any) -> Experiment:
    """experiment(the baseline's sampled values, *records of the check)"""

    def build(sampled: list[float], *checks: dict[str, Any]) -> ExperimentData:
        data = data_of({"a": sampled, "b": [3 * value for value in sampled]})
        record = dataclasses.replace(data.experiment, facts={"sampling_check": list(checks)})
        return dataclasses.replace(data, experiment=record)

    return build


def test_the_ratio_is_that_of_the_neighbours(experiment: Experiment) -> None:
    (cost,) = sampling_costs(experiment([200.0, 200.0 * np.e**0.02], check(110.0)))
    assert cost.cell == Cell("w", "-")
    assert cost.ratio == pytest.approx(1.1)
    # t(0.975, 1) = 12.706; the sd of two logarithms 0.02 apart is 0.02 / sqrt 2
    assert cost.expected == pytest.approx((np.exp(-0.25412), np.exp(0.25412)), rel=1e-4)
    assert not cost.visible


def test_two_trials_of_the_same_kind_are_inside_in_95_percent(experiment: Experiment) -> None:
    rng = np.random.default_rng(7)
    shown = 0
    for _ in range(1000):
        *trials, bare, sampled = 1e6 * np.exp(rng.normal(0, 0.05, 8))
        (cost,) = sampling_costs(experiment(trials, check(bare, sampled)))
        shown += cost.visible
    assert 30 <= shown <= 70


def test_a_large_cost_shows(experiment: Experiment) -> None:
    rng = np.random.default_rng(7)
    trials = list(1e6 * np.exp(rng.normal(0, 0.02, 6)))
    (cost,) = sampling_costs(experiment(trials, check(1.3e6, 1e6)))
    assert cost.visible


def test_what_cannot_be_compared_is_left_out(experiment: Experiment) -> None:
    failed = check(1.0, status="failed", reason="the engine died")
    elsewhere = check(1.0, workload="other")
    data = experiment([100.0, 101.0], failed, elsewhere)
    assert sampling_costs(data) == []
    assert sampling_costs(experiment([100.0], check(100.0))) == []
    assert list(failed_checks(data.experiment.facts)) == [
        "what sampling costs is not known for w: the engine died"
    ]


def test_an_experiment_without_the_check(data_of: Any) -> None:
    data = data_of({"a": [1.0]})
    assert sampling_costs(data) == []
    assert list(failed_checks(data.experiment.facts)) == []
