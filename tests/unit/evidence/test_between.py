"""Test the comparison of the spread of runs with the spread of their blocks."""

from __future__ import annotations

import numpy as np
import pytest

from perfrunner.errors import TrialError
from tools.evidence import between
from tools.evidence.kept import Comparison


def runs(rng, component, *, count=8, blocks=10, effect=0.01):
    """Return `count` runs of one comparison: sd 0.6 % over blocks, and `component` drawn once per run."""
    comparisons = []
    for n in range(count):
        luck = rng.normal(effect, component)
        ratios = np.exp(rng.normal(luck, 0.006, blocks))
        values = {"a": {"ops_per_s": [1000.0] * blocks}, "b": {"ops_per_s": list(1000 * ratios)}}
        comparisons.append(Comparison(f"run-{n}", "pillowfight", "ephemeral", values, ()))
    return comparisons


def test_runs_of_one_effect_rarely_differ(rng):
    p = [between.runs_of(runs(rng, 0.0), "ops_per_s").p for _ in range(400)]
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


def test_a_component_between_runs_shows(rng):
    measured = between.runs_of(runs(rng, 0.01, count=12), "ops_per_s")
    assert measured.p < 0.001
    assert measured.sd > 2 * measured.promised
    assert measured.promised == pytest.approx(0.006 / 10**0.5, rel=0.3)
    assert measured.ci95[0] < 0.01 < measured.ci95[1]


def test_a_neighbour_ends_with_its_measurement():
    with between.neighbour("none"):
        pass
    with between.neighbour("memory"):
        pass  # Popen waits for it: a walker that went on would hang the test


def test_a_neighbour_that_dies_is_no_neighbour(monkeypatch):
    monkeypatch.setattr(between, "_WALKER", "raise SystemExit(3)")
    popen = between.subprocess.Popen

    def ended(*args, **kwargs):
        process = popen(*args, **kwargs)
        process.wait()
        return process

    monkeypatch.setattr(between.subprocess, "Popen", ended)
    with pytest.raises(TrialError, match="status 3"), between.neighbour("memory"):
        pass
