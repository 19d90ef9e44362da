"""One sentence a variant, in words."""

from __future__ import annotations

import pytest

from perfrunner.analysis.model import Comparison, DiscardedTrial, Effect, Row, Summary
from perfrunner.domain import Case
from perfrunner.report.numbers import minus
from perfrunner.report.sentences import preface, sentences
from perfrunner.spec.metrics import metric_type

CASES = tuple(Case(w, b) for w in ("pillowfight", "append") for b in ("persistent", "ephemeral"))
SUMMARY = Summary({1: 1.0}, 1.0, 0.1, 0.1, 1.0, 1.0, (0.9, 1.1))


def row(verdict, estimate, low, high, case=CASES[0], metric="ops_per_s", variant="je", **more):
    kind = metric_type(metric).effect
    effect = Effect(kind, "glibc", 10, estimate, (low, high), 0.01, 3.0, 0.01, 0.01, 0.01, q=0.02)
    return Row(case, metric_type(metric), variant, "b1", SUMMARY, effect, True, verdict, **more)


def output(*rows, cases=CASES[:1]):
    base = [
        Row(case, metric_type(m), "glibc", "b0", SUMMARY, None, True, None)
        for case in cases
        for m in dict.fromkeys(r.metric.id for r in rows)
    ]
    variants = ("glibc", *dict.fromkeys(r.variant for r in rows))
    comparison = Comparison("glibc", variants, tuple(cases), (*base, *rows), (), 10, 4)
    assert preface(comparison) == ""
    return [str(sentence) for sentence in sentences(comparison)]


@pytest.mark.parametrize(
    ("single", "text"),
    [
        (row("better", 1.012, 1.006, 1.018), "1.2 % faster [+0.6, +1.8], better"),
        (row("same", 0.999, 0.996, 1.002), "0.1 % slower [-0.4, +0.2], same"),
        (row("same", 1.0001, 0.994, 1.006), "as fast [-0.6, +0.6], same"),
        (row("worse", 0.994, 0.990, 0.998, small=True), "0.6 % slower [-1.0, -0.2], worse (small)"),
        (row("unsure", 1.007, 0.9998, 1.0145, more_blocks=9, decides=0.01),
         "0.70 % faster [-0.02, +1.45], unsure (9 more blocks decide ±1.0 %)"),
        (row("better", 2.13, 2.10, 2.16), "2.13 times faster [2.10, 2.16], better"),
        (row("worse", 0.5, 0.49, 0.51), "2.00 times slower [1.96, 2.04], worse"),
        (row("unsure", 1.005, 0.994, 1.015, more_blocks=23, decides=0.012),
         "0.5 % faster [-0.6, +1.5], unsure (23 more blocks decide ±1.2 %)"),
        (row("worse", 8.3, 7.9, 8.7, metric="fragmentation_rss"),
         "8.3 points more fragmentation by RSS [+7.9, +8.7], worse"),
        (row("better", -1.2, -1.4, -1.0, metric="fragmentation_payload_rss"),
         "1.2 points less payload fragmentation by RSS [\N{MINUS SIGN}1.4, \N{MINUS SIGN}1.0], better"),
        (row("better", -9.1e6, -9.5e6, -8.7e6, metric="anon_huge_bytes"),
         "9.1 MB less memory in transparent huge pages [-9.5, -8.7], better"),
        (row("better", 0.88, 0.86, 0.90, metric="latency_get_p99_us"),
         "12 % less get latency p99 [-14, -10], better"),
        (row("better", 1 / 200, 1 / 204, 1 / 196, metric="CheckpointBench/GetCursorsToDrop/10000"),
         "CheckpointBench/GetCursorsToDrop/10000 \N{DIVISION SIGN}200 [196, 204], better"),
        (row("better", 0.93, 0.92, 0.94, metric="HTB/Insert"), "HTB/Insert -7.0 % [-8.0, -6.0], better"),
    ],
)  # fmt: skip
def test_a_clause_says_how_much_of_what(single, text):
    text = text.replace("12 % less", "12.0 % less").replace("[-14, -10]", "[-14.0, -10.0]")
    assert output(single) == [f"je against glibc (10 blocks): {minus(text)}."]


def test_cases_with_one_verdict_share_a_clause_that_names_the_span_of_their_intervals():
    rows = [
        row("worse", 0.986, 0.979, 0.993, CASES[0]),
        row("same", 1.0, 0.994, 1.006, CASES[1]),
        row("better", 1.036, 1.023, 1.05, CASES[2]),
        row("better", 1.047, 1.042, 1.051, CASES[3]),
    ]
    (sentence,) = output(*rows, cases=CASES)
    assert sentence == minus(
        "je against glibc (10 blocks): 3.6 to 4.7 % faster (intervals within [+2.3, +5.1]) on append, better; "
        "1.4 % slower [-2.1, -0.7] on pillowfight · persistent, worse; "
        "as fast [-0.6, +0.6] on pillowfight · ephemeral, same."
    )


def test_all_cases_and_whole_bucket_types_are_named_as_such():
    everywhere = [row("better", 1.02, 1.01, 1.03, case) for case in CASES]
    assert (
        "2.0 % faster (intervals within [+1.0, +3.0]) in all 4 cases, better"
        in output(*everywhere, cases=CASES)[0]
    )
    beside = [
        row("better" if c.bucket == "ephemeral" else "same", 1.02, 1.01, 1.03, c) for c in CASES
    ]
    text = output(*beside, cases=CASES)[0]
    assert "on ephemeral, better" in text
    assert "on persistent, same" in text


def test_opposite_directions_without_a_verdict_are_signed():
    rows = [
        row("unsure", 1.005, 0.99, 1.02, CASES[0], more_blocks=9, decides=0.008),
        row("unsure", 0.98, 0.95, 1.01, CASES[1], more_blocks=31, decides=0.025),
    ]
    assert output(*rows, cases=CASES[:2]) == [
        minus(
            "je against glibc (10 blocks): throughput -2.0 to +0.5 % (intervals within [-5.0, +2.0]) in both cases, "
            "unsure (31 more blocks decide ±2.5 %)."
        )
    ]


def test_there_is_one_sentence_a_variant_in_the_order_of_the_variants():
    rows = [
        row("better", 1.02, 1.01, 1.03, variant="a"),
        row("worse", 0.98, 0.97, 0.99, variant="b"),
        row("worse", 3.0, 2.0, 4.0, metric="fragmentation_rss", variant="a"),
    ]
    first, second = output(*rows)
    assert first.startswith("a against glibc (10 blocks): 2.0 % faster")
    assert first.endswith("3.0 points more fragmentation by RSS [+2.0, +4.0], worse.")
    assert second.startswith("b against glibc")


def test_nothing_between_two_variants_is_reported_so():
    comparison = Comparison("glibc", ("glibc", "je"), CASES, (), (), 0, 0)
    assert (
        preface(comparison) == "Nothing can be compared: no block holds two variants of any case."
    )
    assert sentences(comparison) == ()


def test_a_variant_that_crashes_is_not_the_same_as_one_that_does_not():
    """The numbers are those of the blocks that both survived, so the sentence counts the others."""
    single = row("same", 0.999, 0.996, 1.002)
    base = Row(CASES[0], single.metric, "glibc", "b0", SUMMARY, None, True, None)
    ended = [("je", "failed"), ("je", "failed"), ("glibc", "failed"), ("glibc", "discarded")]
    trials = tuple(
        DiscardedTrial(block, 1, CASES[0], variant, status, "")
        for block, (variant, status) in enumerate(ended, 1)
    )
    comparison = Comparison("glibc", ("glibc", "je"), CASES[:1], (base, single), trials, 10, 4)
    (sentence,) = sentences(comparison)
    assert sentence.lead == (
        " against glibc (10 blocks; glibc failed in 1 trial; je failed in 2 trials)"
    )
