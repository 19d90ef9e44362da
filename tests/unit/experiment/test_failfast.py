"""Three trials in a row that fail of one cause end a run; a variant that is broken by itself does not."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.stopping import RepeatedFailure
from perfrunner.experiment.trial.placement import TrialResult

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
BUSY = "cannot listen on port {}: in use"


def unit(*trials: tuple[str, str, str], workload: str = "w") -> list[TrialResult]:
    """(variant, status, reason) of each variant."""
    return [
        TrialResult(TrialKey(1, 1, 1, workload, "-", name), status, reason, NOW, NOW, Path())  # type: ignore[arg-type]
        for name, status, reason in trials
    ]


def stops(variants: int, units: list[list[TrialResult]]) -> list[str | None]:
    rule = RepeatedFailure(variants)
    return [rule.add(results) for results in units]


def test_one_cause_in_every_trial_alone() -> None:
    units = [unit((name, "failed", BUSY.format(n))) for n, name in enumerate("abc")]
    assert stops(3, units) == [None, None, BUSY.format(2)]


def test_one_cause_in_every_group() -> None:
    units = [unit(("a", "failed", "no space"), ("b", "failed", "no space"))] * 3
    assert stops(2, units)[-1] == "no space"


@pytest.mark.parametrize(
    "units",
    [
        [unit(("a", "failed", "crash"), ("b", "discarded", "a, in the same group, failed"))] * 5,
        [unit(("a", "failed", "crash")), unit(("b", "ok", ""))] * 5,
        [unit((name, "failed", f"of its own: {name}")) for name in "abab"],
        [unit(("a", "discarded", "saturated"), ("b", "ok", ""))] * 5,
        [unit((name, "failed", "busy")) for name in "ab"] + [unit(("a", "ok", ""))] + [unit(("b", "failed", "busy"))],
    ],
    ids=["one broken variant", "a broken variant alone", "several causes", "discarded", "a success between"],
)  # fmt: skip
def test_what_does_not_end_a_run(units: list[list[TrialResult]]) -> None:
    assert set(stops(2, units)) == {None}


def test_two_workloads_that_always_fail_each_of_its_own_cause() -> None:
    def turn(cause: str) -> list[list[TrialResult]]:
        variants = [(name, "failed", cause) for name in "ab"]
        return [
            unit(*variants, workload="pf"),
            unit(*[(a, s, "no answer") for a, s, _ in variants], workload="app"),
        ]

    assert stops(2, turn("refused") * 3)[-2:] == ["refused", "no answer"]
    between = [*turn("refused") * 2, unit(("a", "ok", ""), workload="other"), *turn("refused")]
    assert set(stops(2, between)) == {None}
