"""What the samplers cost: on simulated trials of which the truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from perfrunner.analysis.noise import failed_checks, sampling_costs
from perfrunner.domain import Case
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
    assert cost.case == Case("w", "-")
    assert cost.ratio == pytest.approx(1.1)
    # t(0.975, 1) = 12.706; the sd of two logarithms 0.02 apart is 0.02 / sqrt 2
    assert cost.interval == pytest.approx((1.1 * np.exp(-0.25412), 1.1 * np.exp(0.25412)), rel=1e-4)
    assert cost.floor == pytest.approx(np.exp(0.25412) - 1, rel=1e-4)
    assert not cost.visible


def test_two_trials_of_the_same_kind_are_inside_in_95_percent(experiment: Experiment) -> None:
    rng = np.random.default_rng(7)
    shown = 0
    for _ in range(1000):
        *trials, bare, sampled = 1e6 * np.exp(rng.normal(0, 0.05, 8))
        (cost,) = sampling_costs(experiment(trials, check(bare, sampled)))
        shown += cost.visible
    assert 30 <= shown <= 70


def test_many_figures_that_cost_nothing_seldom_show_anything(data_of: Any) -> None:
    """One at a time some of eight show in a third of all experiments, and one was reported as a cost of 48 %."""
    rng = np.random.default_rng(7)
    metrics = [f"m{n}" for n in range(8)]
    shown = 0
    for _ in range(400):
        noise = rng.normal(0, 0.05, (8, 8))
        data = data_of({"a": [1.0] * 6, "b": [1.0] * 6})
        trials = tuple(
            dataclasses.replace(
                t, metrics={m: float(np.exp(noise[i, t.block - 1])) for i, m in enumerate(metrics)}
            )
            for t in data.trials
        )
        bare, sampled = (dict(zip(metrics, np.exp(noise[:, n]), strict=True)) for n in (6, 7))
        facts = {"sampling_check": [check(1.0) | {"bare": bare, "sampled": sampled}]}
        experiment = dataclasses.replace(data.experiment, facts=facts)
        costs = sampling_costs(dataclasses.replace(data, experiment=experiment, trials=trials))
        assert len(costs) == 8
        shown += any(cost.visible for cost in costs)
    assert shown <= 0.08 * 400


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
        "the cost of sampling is unknown for w: the engine died"
    ]


def test_an_experiment_without_the_check(data_of: Any) -> None:
    data = data_of({"a": [1.0]})
    assert sampling_costs(data) == []
    assert list(failed_checks(data.experiment.facts)) == []


# -- side by side


@pytest.fixture
def interleaved(data: Any, trial: Any) -> Experiment:
    """interleaved(log ratios of b, of c, *records): the host itself swings by 30 % from block to block."""

    def build(b: list[float], c: list[float], *checks: dict[str, Any]) -> ExperimentData:
        rng = np.random.default_rng(3)
        trials = []
        for block, shifts in enumerate(zip(b, c, strict=True), 1):
            host = 1e6 * np.exp(rng.normal(0, 0.3))
            for variant, shift in (("a", 0.0), ("b", shifts[0]), ("c", shifts[1])):
                ops = float(host * np.exp(shift))
                trials.append(trial(block, variant, {"ops_per_s": ops}, group=1))
        made = data(trials, ("a", "b", "c"))
        facts = {"sampling_check": [{**single, "interleaved": True} for single in checks]}
        return dataclasses.replace(
            made, experiment=dataclasses.replace(made.experiment, facts=facts)
        )

    return build


def test_side_by_side_the_spread_is_that_of_paired_ratios(interleaved: Experiment) -> None:
    (cost,) = sampling_costs(interleaved([0.01, 0.03], [0.52, 0.48], check(1.02e6, 1e6)))
    # squares around each variant's own mean: 2 * 0.01^2 + 2 * 0.02^2, 2 degrees of freedom; t(0.975, 2) = 4.3027
    half = 4.30265 * np.sqrt(0.001 / 2)
    assert cost.interval == pytest.approx((1.02 * np.exp(-half), 1.02 * np.exp(half)), rel=1e-4)
    assert cost.floor == pytest.approx(np.exp(half) - 1, rel=1e-4)
    assert not cost.visible


def test_side_by_side_nothing_is_visible_in_5_percent(interleaved: Experiment) -> None:
    rng = np.random.default_rng(11)
    shown = 0
    for _ in range(400):
        noise = rng.normal(0, 0.005, (3, 8))
        record = check(1e6 * np.exp(noise[2, 0]), 1e6)
        (cost,) = sampling_costs(interleaved(list(noise[0]), list(0.1 + noise[1]), record))
        shown += cost.visible
    assert 8 <= shown <= 34


def test_side_by_side_a_cost_of_three_percent_shows(interleaved: Experiment) -> None:
    rng = np.random.default_rng(11)
    b, c = (list(rng.normal(0, 0.005, 8)) for _ in range(2))
    (cost,) = sampling_costs(interleaved(b, c, check(1.03e6, 1e6)))
    assert cost.visible
    one_block = interleaved(b[:1], c[:1], check(1.03e6, 1e6))
    assert sampling_costs(one_block) == []  # it has no spread
