"""Trials that are too short for a verdict: the numbers stay, the reason is given."""

from __future__ import annotations

import pytest

from perfrunner.analysis.compare import compare
from perfrunner.report.sentences import preface, sentences

BASE = [100.0, 102.0, 98.0, 101.0, 99.0, 100.5, 100.2, 99.7]


@pytest.fixture
def row_of(trial, data):
    def build(metric, facts, **spec):
        trials = [
            trial(block, variant, {metric: value * factor * (1 + 0.001 * (block % 2))}, facts=facts)
            for variant, factor in (("a", 1.0), ("b", 0.8))
            for block, value in enumerate(BASE, 1)
        ]
        report = compare(data(trials, primary=[metric], **spec))
        (row,) = [row for row in report.rows if row.effect]
        return row, " ".join(map(str, sentences(report)))

    return build


def test_a_rate_of_less_than_a_second_of_load_has_no_verdict_and_says_why(row_of):
    """The quickstart's append ran 0.07 to 0.2 s and was reported as worse by 17 %."""
    row, text = row_of("ops_per_s", {"load_s": 0.2})
    assert row.verdict is None
    assert row.effect.estimate == pytest.approx(0.8, abs=0.01)
    assert row.reason.startswith("0.2 s of load per trial")
    assert row.reason in text


@pytest.mark.parametrize("facts", [{"load_s": 1.0}, {}])
def test_a_second_is_enough_and_what_is_not_known_is_not_held_against_it(row_of, facts):
    assert row_of("ops_per_s", facts)[0].verdict == "worse"


@pytest.mark.parametrize(
    ("metric", "verdict"), [("ops_per_s_during", None), ("ops_per_s_after", "worse")]
)
def test_the_parts_of_a_load_are_judged_by_their_own_length(row_of, metric, verdict):
    """However long all of it was."""
    facts = {"load_s": 9.0, "load_parts_s": {"before": 4.0, "during": 0.3, "after": 4.7}}
    row, _ = row_of(metric, facts, workloads={"w": {"schedule": "interleaved"}})
    assert row.verdict == verdict
    assert row.reason.startswith("0.3 s of load per trial") == (verdict is None)


def test_short_trials_that_the_spec_asks_for_are_judged(row_of):
    """Hundreds of rounds of slices side by side are precise in less than a second."""
    asked = {"workloads": {"w": {"schedule": "interleaved"}}}
    row, _ = row_of("ops_per_s", {"load_s": 0.5}, **asked)
    assert row.verdict == "worse"
    assert "0.5 s of load per trial, as the spec asks" in row.notes, "said where it is so"
    assert not any(
        "of load" in note for note in row_of("ops_per_s", {"load_s": 2.0}, **asked)[0].notes
    )


def test_a_short_trial_still_has_verdicts_on_what_is_no_rate(row_of):
    assert row_of("fragmentation_rss", {"load_s": 0.2})[0].verdict == "better"


@pytest.mark.parametrize(
    ("metric", "ops", "judged"),
    [
        ("latency_set_p99_9_us", 9_000, False),
        ("latency_set_p99_9_us", 10_100, True),
        ("latency_set_p99_us", 9_000, True),
        ("latency_set_p50_us", 19, False),
        ("latency_get_p50_us", 0, True),  # there were none to time, or nobody reported
    ],
)
def test_a_percentile_needs_ten_operations_beyond_it(row_of, metric, ops, judged):
    row, _ = row_of(metric, {"latency_ops": {"set": ops}})
    assert (row.verdict == "better") == judged
    if not judged:
        assert "operations of a trial are slower" in row.reason


@pytest.mark.parametrize("blocks", [10, 4])
def test_a_change_without_a_verdict_says_why_unless_the_first_line_did(data_of, blocks):
    """One variant of two crashed in most blocks, so that the other one alone has a verdict."""
    values = [1e6 * (1 + 0.001 * (block % 3)) for block in range(10)]
    faster = [1.05 * value + 100 * block for block, value in enumerate(values)]
    comparison = compare(data_of({"a": values[:blocks], "b": faster[:blocks], "c": faster[:4]}))
    b, c = map(str, sentences(comparison))
    reason = "4 blocks: numbers only, a verdict needs 6"
    assert (reason in c) is (blocks == 10)
    assert reason not in b
    assert bool(preface(comparison)) is (blocks == 4)


@pytest.mark.parametrize("blocks", [4, 8])
def test_few_blocks_are_no_disagreement_of_the_two_tests(blocks, data_of):
    """The smallest p of the signed-rank test of five blocks is 0.0625, however clear the change is."""
    faster = [1.05 * value for value in BASE[:blocks]]
    faster[1] *= 1.001
    (_, row) = compare(data_of({"a": BASE[:blocks], "b": faster})).rows
    assert row.effect.p < 0.001
    assert not [note for note in row.notes if "signed-rank" in note]
