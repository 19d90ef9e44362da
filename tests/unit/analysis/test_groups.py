"""Variants that ran side by side in groups: each is compared with the baseline of its own group."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.compare import compare
from perfrunner.analysis.model import Row
from perfrunner.analysis.quality import slow_slices_note
from perfrunner.domain import Case
from perfrunner.results import ExperimentData, TrialRecord

CASE = Case("w", "-")
Make = Callable[..., Any]


def row_of(data: ExperimentData, variant: str, baseline: str | None = None) -> Row:
    row = compare(data, baseline).row(CASE, "ops_per_s", variant)
    assert row is not None
    return row


@pytest.fixture
def grouped(trial: Make, rng: np.random.Generator) -> Callable[..., list[TrialRecord]]:
    """Groups (a, b) and (a, c) in each block. b = 1.02 a and c = 0.97 a; the second group met a slower host."""

    def build(blocks: int = 8) -> list[TrialRecord]:
        trials = []
        for block in range(1, blocks + 1):
            for group, (variant, factor) in enumerate((("b", 1.02), ("c", 0.97)), 1):
                host = float(np.exp(rng.normal(-0.2 * (group - 1), 0.1)))
                for name, of_it in (("a", 1.0), (variant, factor)):
                    ops = 1e6 * host * of_it * float(np.exp(rng.normal(0, 0.001)))
                    trials.append(trial(block, name, {"ops_per_s": ops}, group=group))
        return trials

    return build


def test_a_variant_is_paired_with_the_baseline_of_its_own_group(data: Make, grouped: Make) -> None:
    experiment = data(grouped(), ("a", "b", "c"))
    for variant, factor in (("b", 1.02), ("c", 0.97)):
        effect = row_of(experiment, variant).effect
        assert effect is not None
        assert effect.n == 8
        assert effect.estimate == pytest.approx(factor, rel=0.003)
        assert effect.sd is not None
        assert effect.sd < 0.005  # the hosts' 10 % between groups are not in it


def test_the_baseline_has_one_value_a_block_the_mean_over_its_groups(
    data: Make, grouped: Make
) -> None:
    trials = grouped()
    summary = row_of(data(trials, ("a", "b", "c")), "a").summary
    own = [t.metrics["ops_per_s"] for t in trials if t.block == 3 and t.variant == "a"]
    assert len(own) == 2
    assert summary.n == 8
    assert summary.values[3] == pytest.approx(sum(own) / 2)


def test_a_discarded_group_takes_the_whole_block_and_the_redo_counts(
    data: Make, grouped: Make
) -> None:
    trials = grouped()
    spoiled = [
        replace(t, status="discarded") if (t.block, t.variant) == (2, "c") else t for t in trials
    ]
    assert set(row_of(data(spoiled, ("a", "b", "c")), "b").summary.values) == {1, 3, 4, 5, 6, 7, 8}
    redone = [replace(t, attempt=2) for t in trials if t.block == 2]
    assert row_of(data([*spoiled, *redone], ("a", "b", "c")), "b").summary.n == 8


def test_a_variant_that_always_crashes_takes_only_its_own_group(data: Make, grouped: Make) -> None:
    dead = [
        replace(t, status="failed" if t.variant == "c" else "discarded") if t.group == 2 else t
        for t in grouped()
    ]
    comparison = compare(data(dead, ("a", "b", "c")))
    assert row_of(data(dead, ("a", "b", "c")), "b").summary.n == 8
    assert any("c did not finish a single trial" in warning for warning in comparison.warnings)


def test_what_ran_without_the_variant_that_always_crashed_counts(data: Make, grouped: Make) -> None:
    """After two deaths the runner leaves it out: its trials stay failed, those next to it are whole."""
    trials = [replace(t, group=1) for t in grouped() if (t.variant, t.group) != ("a", 2)]
    crashed = [
        replace(t, status="failed" if t.variant == "c" else "discarded")
        for t in trials
        if t.block <= 2
    ]
    left_out = [
        replace(t, attempt=2 if t.block <= 2 else 1, status="failed" if t.variant == "c" else "ok")
        for t in trials
    ]
    assert row_of(data([*crashed, *left_out], ("a", "b", "c")), "b").summary.n == 8


def test_variants_that_were_never_side_by_side_are_paired_by_block_and_reported(
    data: Make, grouped: Make
) -> None:
    row = row_of(data(grouped(), ("a", "b", "c")), "c", baseline="b")
    assert row.effect is not None
    assert row.effect.n == 8
    assert any("not interleaved, paired by block only" in note for note in row.notes)
    usual = row_of(data(grouped(), ("a", "b", "c")), "c")
    assert not any("not interleaved" in note for note in usual.notes)


def test_a_metric_that_one_groups_baseline_lacks_pairs_nothing_there(
    data: Make, trial: Make
) -> None:
    trials = []
    for block in range(1, 8):
        for group, variant in ((1, "b"), (2, "c")):
            base = {"ops_per_s": 100.0 + block}
            if group == 2:
                base["mapped_bytes"] = 1e8
            trials.append(trial(block, "a", base, group=group))
            trials.append(trial(block, variant, {"ops_per_s": 101.0 + block}, group=group))
    comparison = compare(data(trials, ("a", "b", "c")))
    assert comparison.row(CASE, "mapped_bytes", "b") is None
    assert row_of(data(trials, ("a", "b", "c")), "b").effect is not None


# -- the robust estimate and the totals


def stalled(
    rng: np.random.Generator, data: Make, trial: Make, stall: float, blocks: int = 10
) -> ExperimentData:
    """Variant b loses the share `stall` of its time to rare slices; the host stalls both variants now and then."""
    trials = []
    for block in range(1, blocks + 1):
        common = rng.normal(0, 0.1)
        for variant, lost in (("a", 0.0), ("b", stall)):
            robust = 1e6 * math.exp(common + rng.normal(0, 0.003))
            total = robust * math.exp(-abs(rng.normal(0.02, 0.004)) - lost)
            slow = 0.05 + (1.5 if lost else 0.0)
            metrics = {"ops_per_s": robust, "ops_per_s_total": total, "slow_slices": slow}
            trials.append(trial(block, variant, metrics, group=1))
    result: ExperimentData = data(trials)
    return result


def rare_notes(data: ExperimentData) -> list[str]:
    row = compare(data).row(CASE, "ops_per_s", "b")
    assert row is not None
    return [note for note in row.notes if "slow slices" in note]


def test_a_variant_with_rare_stalls_is_named(
    rng: np.random.Generator, data: Make, trial: Make
) -> None:
    (note,) = rare_notes(stalled(rng, data, trial, 0.03))
    assert note.startswith("by totals \N{MINUS SIGN}")
    assert note.endswith(
        "the difference sits in slow slices (1.6 % of its slices are slower than twice its median, "
        "0.05 % of the baseline's)"
    )


def test_variants_that_stall_alike_are_not_named(
    rng: np.random.Generator, data: Make, trial: Make
) -> None:
    named = sum(bool(rare_notes(stalled(rng, data, trial, 0.0))) for _ in range(200))
    assert named <= 18  # 5 % of 200, and two standard deviations


@pytest.mark.parametrize("rate", [1.0, 1.05])
def test_slow_slices_explain_no_difference_that_the_totals_do_not_show(
    rng: np.random.Generator, data: Make, trial: Make, rate: float
) -> None:
    """More slow slices, and a throughput that is alike, or higher."""
    trials = []
    for block in range(1, 11):
        for variant, slow in (("a", 0.5), ("b", 1.0)):
            total = 1e6 * math.exp(rng.normal(0, 0.01)) * (rate if variant == "b" else 1.0)
            metrics = {"ops_per_s": total, "ops_per_s_total": total, "slow_slices": slow}
            trials.append(trial(block, variant, metrics))
    (note,) = rare_notes(data(trials))
    assert "the share of slow slices differs (1 % of its slices" in note
    assert "sits in" not in note


def test_a_certain_but_tiny_disagreement_is_not_worth_a_note(data: Make, trial: Make) -> None:
    trials = [
        trial(b, v, {"ops_per_s": 1e6, "ops_per_s_total": 1e6 * (0.999 if v == "b" else 1)})
        for b in range(1, 9)
        for v in "ab"
    ]
    assert rare_notes(data(trials)) == []
    blocks = clean_blocks(trials)[CASE]
    assert list(slow_slices_note(blocks, "a", "b", 0.001)) != []


def test_without_totals_or_with_one_block_there_is_no_note(data: Make, trial: Make) -> None:
    only_robust = [trial(b, v, {"ops_per_s": 1e6}) for b in range(1, 9) for v in "ab"]
    assert rare_notes(data(only_robust)) == []
    first = [
        trial(1, v, {"ops_per_s": 1e6, "ops_per_s_total": 1e6 * (0.5 if v == "b" else 1)})
        for v in "ab"
    ]
    assert rare_notes(data(first)) == []
