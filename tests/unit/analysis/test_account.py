"""The account of a change, and what is reported where throughput and total CPU disagree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfrunner.analysis.account import LESS_CPU, MORE_CPU
from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.cli.gate import judge
from perfrunner.report.build import report_of
from perfrunner.report.json_document import document
from perfrunner.report.sentences import sentences

BLOCKS = 10


def trials(trial, rng, *, blocks=BLOCKS, background=0.0, own=0.0, gain=0.0):
    """Variant b burns `background` µs more in the slices of others and `own` µs in its own; a cycle is 1 µs."""
    for block in range(1, blocks + 1):
        host = np.exp(rng.normal(0, 0.2))  # of this block: slower or faster for both
        for variant in ("a", "b"):
            extra = variant == "b"
            luck = np.exp(rng.normal(0, 0.002))
            parts = {
                "own_cpu_us_per_op": (0.6 + own * extra) * luck,
                "foreign_cpu_us_per_op": 0.01 + background * (not extra),
                "client_cpu_us_per_op": 0.3,
                "waiting_us_per_op": 0.09 - gain * extra,
            }
            parts = {name: value * host for name, value in parts.items()}
            caused = (0.05 + background * extra) * host
            rate = 1e6 / (sum(parts.values()) - (background * host) * (not extra))
            yield trial(
                block,
                variant,
                {
                    **parts,
                    "ops_per_s": rate,
                    "background_cpu_us_per_op": caused,
                    "total_cpu_us_per_op": parts["own_cpu_us_per_op"] + caused,
                },
            )


@pytest.fixture
def compared(trial, data, rng):
    return lambda **costs: compare(data(trials(trial, rng, **costs)))


def throughput(comparison):
    return next(r for r in comparison.rows if r.metric.id == "ops_per_s" and r.variant == "b")


def report(comparison, data):
    return report_of(data([]), comparison)


def test_background_cpu_that_throughput_does_not_show_is_in_the_summary(compared, data):
    comparison = compared(background=0.03)
    row = throughput(comparison)
    assert row.verdict == "same"
    assert row.cpu == MORE_CPU
    assert row.qualifier == " (more CPU)"
    (sentence,) = map(str, report(comparison, data).sentences)
    assert "same; " in sentence
    assert "more total server CPU per operation" in sentence
    assert sentence.endswith("worse.")


def test_fail_on_worse_sees_the_cpu_that_throughput_does_not_show(compared, data):
    shown = document(report(compared(background=0.03), data))
    (line,) = judge(shown, "worse").failing
    assert "total_cpu_us_per_op is worse" in line
    assert judge(document(report(compared(), data)), "worse").failing == ()


def test_nothing_is_better_without_the_cpu_that_it_costs(compared, data):
    comparison = compared(background=0.03, gain=0.03)
    row = throughput(comparison)
    assert (row.verdict, row.cpu) == ("better", MORE_CPU)
    (sentence,) = map(str, report(comparison, data).sentences)
    assert "faster" in sentence
    assert "total server CPU" in sentence


def test_what_both_show_is_no_disagreement(compared, data):
    comparison = compared(own=0.03)
    row = throughput(comparison)
    assert (row.verdict, row.cpu) == ("worse", "")
    (sentence,) = map(str, report(comparison, data).sentences)
    assert "CPU" not in sentence


def test_less_cpu_is_reported_too(compared):
    assert throughput(compared(background=-0.03)).cpu == LESS_CPU


def test_a_spec_that_judges_the_cpu_itself_has_no_companion(trial, data, rng):
    primary = ["ops_per_s", "total_cpu_us_per_op"]
    comparison = compare(data(trials(trial, rng, background=0.03), primary=primary))
    assert not any(row.companion for row in comparison.rows)
    assert throughput(comparison).cpu == MORE_CPU


def test_the_parts_add_up_to_the_change_in_time(compared):
    (account,) = compared(own=0.02, gain=0.01).accounts
    total = sum(part.effect.estimate for part in account.parts)
    assert total == pytest.approx(account.time.effect.estimate)
    shares = {part.metric: part.effect for part in account.parts}
    own, waiting = shares["own_cpu_us_per_op"], shares["waiting_us_per_op"]
    assert own.ci95[0] < 0.02 < own.ci95[1]
    assert waiting.estimate == pytest.approx(-0.01, abs=1e-4)
    assert account.time.effect.ci95[0] < 0.01 < account.time.effect.ci95[1]


def test_the_account_names_what_the_others_paid(compared):
    (account,) = compared(background=0.03).accounts
    assert account.background.effect.estimate == pytest.approx(0.03, rel=0.1)
    assert account.background.effect.ci95[0] > 0


def test_trials_without_the_clocks_of_all_variants_have_no_account(trial, data):
    plain = [trial(b, v, {"ops_per_s": 1e6 + b}) for b in range(1, 7) for v in "ab"]
    assert compare(data(plain)).accounts == ()


def test_writes_that_are_still_owed_are_noted_next_to_the_throughput(trial, data):
    owed = [
        trial(b, v, {"ops_per_s": 1e6 + b, "unpersisted_items": 1000.0 * (v == "b") + b})
        for b in range(1, 7)
        for v in "ab"
    ]
    (note,) = throughput(compare(data(owed))).notes
    assert note == (
        "writes not yet on disk at the end of the load: 1,004 against 4 of the baseline, +1,000 [+1,000, +1,000]"
    )


def test_a_block_without_time_has_no_account(trial, data, rng):
    """A baseline that did nothing in one block leaves that block out; in all blocks, the account."""

    def idle(blocks):
        return [
            replace(t, metrics=dict.fromkeys(t.metrics, 0.0) | {"ops_per_s": 1e6})
            if t.variant == "a" and t.block in blocks
            else t
            for t in trials(trial, rng)
        ]

    (account,) = compare(data(idle({1}))).accounts
    assert account.time.effect.n == BLOCKS - 1
    assert compare(data(idle(range(BLOCKS + 1)))).accounts == ()


def test_without_a_verdict_the_summary_names_the_cpu_as_well(compared, data):
    """Five blocks give no verdict, but a reader takes "3 % faster" for one."""
    comparison = compared(blocks=5, background=0.03, gain=0.03)
    row = throughput(comparison)
    assert (row.verdict, row.cpu) == (None, MORE_CPU)
    (sentence,) = report(comparison, data).sentences
    assert "faster" in str(sentence)
    assert "more total server CPU per operation" in str(sentence)
    assert throughput(compared(blocks=5)).cpu == ""


def test_two_runs_name_the_cpu_as_well(trial, data, rng):
    first, second = (
        data(
            [
                replace(t, variant="a")
                for t in trials(trial, rng, background=0.06)
                if t.variant == name
            ]
        )
        for name in ("a", "b")
    )
    second = replace(second, experiment=replace(second.experiment, id="e2"))
    comparison = compare_unpaired(*map(on_a_quiet_host, (first, second)), "a", "a")
    (row,) = [r for r in comparison.rows if r.metric.id == "ops_per_s" and r.effect is not None]
    assert (row.verdict, row.cpu) == (None, MORE_CPU)
    (sentence,) = sentences(comparison)
    assert "more total server CPU per operation" in str(sentence)


def on_a_quiet_host(experiment):
    """The experiment without the common factor of each block, which an unpaired comparison does not cancel."""
    return replace(
        experiment,
        trials=tuple(
            replace(t, metrics={k: v / t.metrics["client_cpu_us_per_op"] for k, v in t.metrics.items()}
                    | {"ops_per_s": t.metrics["ops_per_s"] * t.metrics["client_cpu_us_per_op"]})
            for t in experiment.trials
        ),
    )  # fmt: skip


def test_an_unfinished_run_has_wider_intervals_in_its_account_as_well(trial, data, rng):
    """The warning about it speaks of all intervals."""
    finished = data(trials(trial, rng, background=0.02))
    running = replace(finished, experiment=replace(finished.experiment, state="interrupted"))
    (planned,), (anytime,) = (compare(run).accounts for run in (finished, running))
    for then, now in zip(planned.parts, anytime.parts, strict=True):
        (low, high), (lower, higher) = then.effect.ci95, now.effect.ci95
        assert lower <= low <= high <= higher
    low, high = planned.time.effect.ci95
    lower, higher = anytime.time.effect.ci95
    assert higher - lower > 1.5 * (high - low)


def test_the_families_of_the_correction_are_named(compared, data, data_of):
    def correction(comparison):
        made = report(comparison, data)
        return next(fact.value for fact in made.context if fact.label == "correction")

    assert correction(compared()).endswith("tests, primary metrics and total CPU each separately")
    alone = compare(data_of({"a": [1.0] * 6, "b": [1.0] * 6}))
    assert correction(alone).endswith("over 1 test, primary metrics separately")
