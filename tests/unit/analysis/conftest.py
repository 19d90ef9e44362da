"""Simulated experiments: the truth is known, so the analysis can be judged."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from perfrunner.results import ExperimentData, ExperimentRecord, TrialRecord

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)


def make_trial(block, variant, metrics, **changes):
    values = {
        "block": block, "attempt": 1, "position": 1, "workload": "w", "bucket": "-", "variant": variant,
        "build_id": f"build-{variant}", "status": "ok", "reason": "", "started_at": NOW,
        "finished_at": NOW, "metrics": metrics, **changes,
    }  # fmt: skip
    return TrialRecord(**values)


def make_data(trials, variants=("a", "b"), **spec):
    record = ExperimentRecord(
        id="e1", name="sim", spec_text="", spec_path="sim.yaml", seed=1, created_at=NOW, tool_version="0",
        spec_json={"baseline": variants[0], "variants": {key: {} for key in variants},
                   "primary": ["ops_per_s"], "workloads": {"w": {}}, **spec}, state="done",
    )  # fmt: skip
    return ExperimentData(record, (), tuple(trials))


def simulate(rng, *, blocks=10, variants=("a", "b"), shift=0.0, sd=0.01, metrics=("ops_per_s",),
             drift=0.0, interleaved=True, **spec):  # fmt: skip
    """Log-normal run-to-run noise; the last variant is shifted; `drift` is over the whole experiment."""
    order = [
        (block, str(v)) for block in range(1, blocks + 1) for v in rng.permutation(list(variants))
    ]
    if not interleaved:
        order.sort(key=lambda place: variants.index(place[1]))
    trials = []
    for number, (block, variant) in enumerate(order):
        trend = drift * number / len(order)
        extra = shift if variant == variants[-1] else 0.0
        noise = rng.normal(0, sd, len(metrics))
        values = {
            m: 1e6 * float(np.exp(trend + extra + n)) for m, n in zip(metrics, noise, strict=True)
        }
        trials.append(
            make_trial(block, variant, values, started_at=NOW + timedelta(minutes=number))
        )
    return make_data(trials, variants, **spec)


@pytest.fixture
def rng():
    return np.random.default_rng(20261120)


@pytest.fixture
def sim():
    return simulate


@pytest.fixture
def data_of():
    """data_of({"a": [..], "b": [..]}, metric, **spec): one value a block, None for a missing trial."""

    def build(values, metric="ops_per_s", **spec):
        trials = [
            make_trial(block, variant, {metric: value})
            for variant, series in values.items()
            for block, value in enumerate(series, 1)
            if value is not None
        ]
        return make_data(trials, tuple(values), **{"primary": [metric], **spec})

    return build


@pytest.fixture
def trial():
    return make_trial


@pytest.fixture
def data():
    return make_data
