"""Figures that are no numbers fail their trial; the run goes on."""

from __future__ import annotations

import math

import pytest

from perfrunner.experiment.trial.outcome import judge
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_no_number(value: float) -> None:
    measured = Measured(metrics={"ops_per_s": value, "rss_bytes": 1.0})
    status, reason, kept = judge(measured, Limits(), [])
    assert (status, reason) == ("failed", "ops_per_s: not a finite number")
    assert kept.metrics == {"rss_bytes": 1.0}, "the store takes what is left"
