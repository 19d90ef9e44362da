"""`--fail-on`: what ends a run with 1, and what is reported of what passes unknown."""

from __future__ import annotations

import pytest

from perfrunner.cli.gate import Judgement, judge


def row(**changes):
    values = {
        "variant": "je", "baseline": "glibc", "workload": "pf", "bucket": "persistent", "metric": "ops_per_s",
        "primary": True, "direction": "higher", "verdict": "worse", "effect": "ratio", "estimate": 0.95,
        "estimate_ci95": [0.93, 0.97], "margin": 0.01, "reason": "",
    }  # fmt: skip
    return {**values, **changes}


def failing(fail_on, *rows):
    return judge({"results": list(rows)}, fail_on).failing


BASELINE = row(variant="glibc", verdict=None, estimate=None, estimate_ci95=None)
SAME = row(variant="other", verdict="same", estimate=1.0, estimate_ci95=[0.995, 1.005])
SMALL = {"estimate": 0.995, "estimate_ci95": [0.992, 0.998]}


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({}, True),
        ({"primary": False}, False),
        ({"verdict": "unsure"}, False),
        ({"verdict": None}, False),
        ({"verdict": "better", "estimate": 1.05, "estimate_ci95": [1.03, 1.07]}, False),
        (SMALL, False),  # shown to be within the margin
        ({"estimate": 0.995, "estimate_ci95": [0.985, 0.999]}, True),  # may well be beyond it
        ({"effect": "difference", "estimate_ci95": [1.5, 2.5], "margin": 1.0}, True),
        ({"effect": "difference", "estimate_ci95": [-0.9, -0.1], "margin": 1.0}, False),
    ],
)
def test_a_certain_loss_fails_unless_its_interval_lies_within_the_margin(changes, fails):
    assert bool(failing("worse", BASELINE, SAME, row(**changes))) is fails


@pytest.mark.parametrize(
    ("verdict", "fails"),
    [("unsure", True), ("not comparable", True), (None, True), ("same", False), ("better", False)],
)
def test_fail_on_unsure_passes_only_what_was_shown(verdict, fails):
    changed = row(verdict=verdict, reason="3 blocks" if verdict is None else "")
    assert bool(failing("unsure", SAME, changed)) is fails
    unknown = judge({"results": [SAME, changed]}, "worse")
    assert unknown.failing == ()
    assert bool(unknown.passed_unknown) is fails  # never in silence


def test_a_metric_without_direction_is_not_judged():
    neither = row(direction="none", verdict=None)
    assert failing("unsure", SAME, neither) == ()


@pytest.mark.parametrize("fail_on", ["worse", "unsure"])
@pytest.mark.parametrize(
    "rows",
    [[], [BASELINE], [row(primary=False)], [row(verdict=None)], [row(verdict="not comparable")]],
)
def test_a_gate_that_has_nothing_to_judge_does_not_let_pass(fail_on, rows):
    assert (
        failing(fail_on, *rows)[-1]
        == "no primary metric has a verdict, so there is nothing to judge"
    )


def expected_gain(state):
    return {"state": state, "text": f"core against single: {state}"}


@pytest.mark.parametrize(
    ("states", "fails"),
    [
        (["kept"], 0),
        (["kept", "unsure"], 0),
        (["kept", "lost"], 1),
        (["unjudged", "lost"], 2),
        ([], 1),
    ],
)
def test_fail_on_lost_looks_at_the_known_expected_gains_alone(states, fails):
    document = {"results": [row()], "expected_gains": [expected_gain(state) for state in states]}
    judgement = judge(document, "lost")
    assert len(judgement.failing) == fails
    assert len(judgement.passed_unknown) == states.count("unsure")
    assert (
        judge({"results": [SAME], "expected_gains": [expected_gain("lost")]}, "worse").failing == ()
    )


def test_without_the_option_nothing_fails():
    assert failing(None, row()) == ()


def test_the_line_names_the_row_and_the_reason():
    assert failing("worse", row()) == ("je pf persistent ops_per_s is worse",)
    (line,) = failing("unsure", SAME, row(verdict=None, reason="3 blocks: numbers only"))
    assert line == "je pf persistent ops_per_s is without a verdict (3 blocks: numbers only)"


@pytest.mark.parametrize("fail_on", ["worse", "unsure"])
def test_a_primary_metric_that_was_not_measured_is_reported(fail_on):
    """It has no row at all."""
    primary = ["ops_per_s", "latency_get_p99_us"]
    document = {"results": [BASELINE, SAME], "spec": {"primary": primary}}
    judgement = judge(document, fail_on)
    lines = judgement.failing if fail_on == "unsure" else judgement.passed_unknown
    assert lines == ("latency_get_p99_us was not measured",)
    document["results"].append({**SAME, "metric": "latency_get_p99_us", "direction": "lower"})
    assert judge(document, fail_on) == Judgement()


NOT_THERE = {
    "variant": {
        "results": [BASELINE, SAME],
        "spec": {"variants": {"glibc": {}, "je": {}, "other": {}}},
    },
    "variant in one case": {
        "results": [
            BASELINE,
            SAME,
            {**BASELINE, "workload": "append"},
            {**SAME, "workload": "append"},
            row(verdict="same"),
        ]
    },
    "case": {
        "results": [BASELINE, SAME],
        "facts": {
            "discarded": [
                {"workload": "append", "bucket": "persistent", "variant": v}
                for v in ("glibc", "other")
            ]
        },
    },
}


@pytest.mark.parametrize("what", NOT_THERE)
def test_a_case_or_variant_without_a_trial_that_counts_is_reported(what):
    """A variant that always crashes has no row, and a case without trials has none."""
    assert len(judge(NOT_THERE[what], "unsure").failing) == 1
    passed = judge(NOT_THERE[what], "worse")
    assert passed.failing == ()
    assert len(passed.passed_unknown) == 1
