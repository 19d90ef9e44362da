"""The rules: pairing, discarded, verdicts, and every awkward kind of data."""

from __future__ import annotations

import math

import pytest

from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.analysis.other_metrics import moved_with
from perfrunner.domain import Case
from perfrunner.errors import UsageError

CASE = Case("w", "-")
BASE = [100.0, 102.0, 98.0, 101.0, 99.0, 100.5, 100.2, 99.7]


def only_row(comparison, variant="b"):
    (row,) = [r for r in comparison.rows if r.variant == variant]
    return row


def by(values, factor=1.0, wiggle=0.001):
    return [v * factor * (1 + wiggle * (-1) ** i) for i, v in enumerate(values)]


def test_the_ratio_is_the_geometric_mean_over_blocks(data_of):
    other = by(BASE, 1.05, 0.01)
    row = only_row(compare(data_of({"a": BASE, "b": other})))
    logs = [math.log(y / x) for x, y in zip(BASE, other, strict=True)]
    assert row.effect.estimate == pytest.approx(math.exp(sum(logs) / len(logs)))
    assert row.effect.kind == "ratio"
    assert row.effect.ci95[0] < row.effect.estimate < row.effect.ci95[1]
    assert row.verdict == "better"
    assert (row.summary.n, row.effect.n) == (8, 8)


@pytest.mark.parametrize(
    ("metric", "factor", "verdict"),
    [
        ("ops_per_s", 1.05, "better"),
        ("ops_per_s", 0.95, "worse"),
        ("latency_get_p99_us", 1.05, "worse"),
        ("latency_get_p99_us", 0.95, "better"),
        ("ops_per_s", 1.0, "same"),
        ("vsz_bytes", 1.05, None),
    ],
)
def test_the_verdict_follows_the_direction_of_the_metric(data_of, metric, factor, verdict):
    row = only_row(compare(data_of({"a": BASE, "b": by(BASE, factor)}, metric)))
    assert row.verdict == verdict
    assert (row.reason == "neither direction is better") == (verdict is None)


def test_a_certain_change_within_the_margin_is_small(data_of):
    data = data_of({"a": BASE, "b": by(BASE, 1.004, 0.0005)})
    row = only_row(compare(data))
    assert (row.verdict, row.small) == ("better", True)
    strict = only_row(
        compare(data_of({"a": BASE, "b": by(BASE, 1.004, 0.0005)}, margins={"ops_per_s": "0.1%"}))
    )
    assert (strict.verdict, strict.small, strict.effect.margin) == ("better", False, 0.001)


def test_difference_metrics_are_compared_in_their_own_unit(data_of):
    base = [21.0, 21.4, 20.8, 21.1, 21.3, 20.9]
    row = only_row(
        compare(data_of({"a": base, "b": [v + 3 for v in by(base)]}, "fragmentation_rss"))
    )
    assert row.effect.kind == "difference"
    assert row.effect.estimate == pytest.approx(3.0, abs=0.05)
    assert (row.verdict, row.effect.margin) == ("worse", 1.0)


def test_zeros_and_negatives_in_a_difference_metric_are_just_numbers(data_of):
    base = [0.0, -1.0, 1.0, 0.5, -0.5, 0.0]
    row = only_row(
        compare(data_of({"a": base, "b": [v + 4 for v in by(base)]}, "fragmentation_rss"))
    )
    assert row.effect.estimate == pytest.approx(4.0, abs=0.01)
    assert row.verdict == "worse"


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_a_ratio_of_values_that_are_not_positive_is_invalid(data_of, bad):
    row = only_row(compare(data_of({"a": BASE, "b": [*BASE[:-1], bad]})))
    assert (row.verdict, row.effect) == ("not comparable", None)
    assert row.reason == f"a ratio needs positive values; block 8 has {bad:g}"


def test_under_six_blocks_there_are_numbers_but_no_verdict(data_of):
    row = only_row(compare(data_of({"a": BASE[:5], "b": by(BASE[:5], 1.2)})))
    assert row.verdict is None
    assert row.reason == "5 blocks: numbers only, a verdict needs 6"
    assert row.effect.ci95 is not None
    assert row.effect.q is not None
    assert only_row(compare(data_of({"a": BASE[:6], "b": by(BASE[:6], 1.2)}))).verdict == "better"


def test_one_block_has_no_interval(data_of):
    row = only_row(compare(data_of({"a": [100.0], "b": [110.0]})))
    assert row.effect.estimate == pytest.approx(1.1)
    assert (row.effect.ci95, row.effect.p, row.effect.q) == (None, None, None)
    assert (row.summary.sd, row.summary.cv, row.summary.ci95) == (None, None, None)
    assert row.reason.startswith("1 block:")


def test_identical_data_is_the_same(data_of):
    row = only_row(compare(data_of({"a": BASE, "b": BASE})))
    assert row.effect.ci95 == (1.0, 1.0)
    assert (row.effect.p, row.verdict, row.effect.t) == (1.0, "same", None)


def test_a_constant_difference_without_any_spread_is_certain(data_of):
    row = only_row(
        compare(data_of({"a": [786.0] * 6, "b": [738.0] * 6}, "FlushVBucket/x/PeakBytesPerItem"))
    )
    assert row.effect.estimate == pytest.approx(738 / 786)
    assert (row.effect.p, row.verdict, row.effect.t) == (0.0, "better", None)
    assert (row.summary.sd, row.summary.cv) == (0.0, 0.0)


def test_constant_zeros_have_no_cv_and_are_the_same(data_of):
    row = only_row(compare(data_of({"a": [0.0] * 7, "b": [0.0] * 7}, "fragmentation_rss")))
    assert (row.summary.cv, row.verdict, row.effect.estimate) == (None, "same", 0.0)


def test_blocks_that_lack_a_variant_are_left_out_and_reported(data_of):
    row = only_row(compare(data_of({"a": [*BASE, 500.0], "b": [None, *by(BASE[1:], 1.05), None]})))
    assert row.effect.n == 7
    assert any("block 1, 9 lacks one of the variants" in note for note in row.notes)


def test_a_metric_that_only_one_variant_has(data, trial):
    trials = [trial(b, v, {"ops_per_s": 1.0 + b, **({"mapped_bytes": 5.0} if v == "b" else {})})
              for b in range(1, 8) for v in "ab"]  # fmt: skip
    comparison = compare(data(trials))
    row = comparison.row(CASE, "mapped_bytes", "b")
    assert (row.effect, row.verdict, row.reason) == (None, None, "the baseline has no value")
    assert comparison.row(CASE, "mapped_bytes", "a") is None


def test_a_discarded_trial_takes_its_block_with_it_and_the_redo_counts(data, trial):
    trials = [trial(b, v, {"ops_per_s": 100.0 + b}) for b in range(1, 8) for v in "ab" if b != 3]
    trials += [
        trial(3, "a", {"ops_per_s": 1.0}),
        trial(3, "b", {"ops_per_s": 2.0}, status="discarded", reason="misses"),
    ]
    comparison = compare(data(trials))
    assert 3 not in only_row(comparison, "a").summary.values
    assert [(v.block, v.variant, v.reason) for v in comparison.discarded] == [(3, "b", "misses")]
    redone = [trial(3, v, {"ops_per_s": 103.0}, attempt=2) for v in "ab"]
    values = only_row(compare(data(trials + redone)), "a").summary.values
    assert values[3] == 103.0
    spoiled_again = [trial(3, "a", {"ops_per_s": 1.0}, attempt=3, status="failed", reason="crash")]
    assert 3 not in only_row(compare(data(trials + redone + spoiled_again)), "b").summary.values


def test_a_discarded_spoils_only_its_own_case(data, trial):
    trials = [
        trial(b, v, {"ops_per_s": 100.0 + b}, bucket=bucket)
        for b in range(1, 7) for v in "ab" for bucket in ("persistent", "ephemeral")
    ]  # fmt: skip
    trials.append(trial(6, "b", {}, bucket="ephemeral", attempt=2, status="discarded", reason="x"))
    comparison = compare(data(trials, buckets=["persistent", "ephemeral"]))
    counts = {c.bucket: comparison.row(c, "ops_per_s", "a").summary.n for c in comparison.cases}
    assert counts == {"persistent": 6, "ephemeral": 5}
    assert [c.bucket for c in comparison.cases] == ["persistent", "ephemeral"]


def test_a_variant_that_never_succeeds_does_not_take_the_others_with_it(data, trial):
    trials = [trial(b, v, {"ops_per_s": 100.0 + b * (v == "b")}) for b in range(1, 8) for v in "ab"]
    trials += [trial(b, "c", {}, status="failed", reason="crash") for b in range(1, 8)]
    comparison = compare(data(trials, ("a", "b", "c")))
    assert only_row(comparison, "b").effect.n == 7
    assert any("c did not finish a single trial" in w for w in comparison.warnings)
    assert len(comparison.discarded) == 7


def test_without_a_baseline_there_are_no_effects(data, trial):
    comparison = compare(data([trial(b, "b", {"ops_per_s": 1.0}) for b in range(1, 8)]))
    assert only_row(comparison).effect is None
    assert any("no trial of the baseline a counts" in w for w in comparison.warnings)


def test_no_trials_at_all(data):
    comparison = compare(data([]))
    assert (comparison.rows, comparison.cases, comparison.blocks, comparison.tests) == (
        (),
        (),
        0,
        0,
    )


def test_outliers_are_flagged_and_kept(data_of):
    row = only_row(compare(data_of({"a": BASE, "b": [*BASE[:-1], 160.0]})))
    assert row.summary.outliers == (8,)
    assert row.summary.values[8] == 160.0
    assert row.summary.maximum == 160.0
    assert "outlier in block 8 (kept)" in row.notes


def test_the_signed_rank_test_that_disagrees_is_a_note(data_of):
    other = [
        x * r
        for x, r in zip(BASE, [1.01, 1.012, 1.009, 1.011, 1.01, 1.012, 1.011, 0.9], strict=True)
    ]
    row = only_row(compare(data_of({"a": BASE, "b": other})))
    quiet = only_row(compare(data_of({"a": BASE, "b": by(BASE, 1.05)})))
    assert (row.effect.p < 0.05) != (row.effect.wilcoxon_p < 0.05) or not any(
        "disagree" in n for n in row.notes
    )
    assert not any("disagree" in note for note in quiet.notes)
    skewed = [
        x * r
        for x, r in zip(BASE, [1.001, 1.001, 1.001, 1.001, 1.001, 1.001, 1.001, 1.1], strict=True)
    ]
    assert any(
        "disagree" in note for note in only_row(compare(data_of({"a": BASE, "b": skewed}))).notes
    )


def test_the_half_width_of_a_count_without_events_reaches_its_upper_bound(data_of):
    """Ten trials without an event leave 0.37 of them in a trial possible."""
    (row, _) = compare(data_of({"a": [0] * 10, "b": [0] * 10}, "lost_writes")).rows
    assert row.summary.ci95 is not None
    assert row.summary.half_width == pytest.approx(row.summary.ci95[1])
    assert row.summary.half_width == pytest.approx(0.369, abs=0.001)


def test_primary_metrics_come_first_and_are_marked(data, trial):
    metrics = {"latency_get_p99_us": 5.0, "ops_per_s": 100.0, "fragmentation_rss": 20.0}
    trials = [
        trial(b, v, {m: x + b for m, x in metrics.items()}) for b in range(1, 8) for v in "ab"
    ]
    rows = compare(data(trials, primary=["fragmentation_rss", "ops_per_s"])).rows
    assert list(dict.fromkeys(r.metric.id for r in rows)) == [
        "fragmentation_rss",
        "ops_per_s",
        "latency_get_p99_us",
    ]
    assert [r.primary for r in rows] == [True] * 4 + [False] * 2


def test_an_unknown_metric_has_numbers_and_no_verdict(data_of):
    comparison = compare(data_of({"a": BASE, "b": by(BASE, 2)}, "made_up"))
    assert only_row(comparison).verdict is None
    assert any("made_up is unknown" in warning for warning in comparison.warnings)


def test_rebasing_and_its_mistakes(data_of):
    data = data_of({"a": BASE, "b": by(BASE, 1.05), "c": by(BASE, 0.9)})
    comparison = compare(data, "c")
    assert comparison.variants[0] == comparison.baseline == "c"
    assert only_row(comparison, "a").effect.estimate == pytest.approx(1 / 0.9, rel=1e-3)
    with pytest.raises(UsageError, match="no variant 'd'"):
        compare(data, "d")


def test_what_moved_is_sorted_by_clarity(data, trial):
    def metrics(block, variant):
        up = variant == "b"
        return {
            "ops_per_s": 100.0 + block,
            "rss_bytes": 1e6 + block if not up else 1.2e6 + 31 * block,
            "latency_get_p99_us": (50.0 + block % 3) * (1.1 + 0.02 * (block % 2) if up else 1),
            "pss_bytes": 1e6 + 1000 * (block % 4) + 300 * up * (-1) ** block,
        }

    comparison = compare(data([trial(b, v, metrics(b, v)) for b in range(1, 9) for v in "ab"]))
    moved = moved_with(comparison, CASE, "b")
    assert [row.metric.id for row in moved] == ["rss_bytes", "latency_get_p99_us"]


def test_two_experiments_get_an_interval_but_no_verdict(data_of):
    first, second = data_of({"a": BASE, "b": BASE}), data_of({"a": by(BASE, 1.1), "b": BASE})
    comparison = compare_unpaired(first, second, "a", "a")
    row = comparison.rows[1]
    assert row.effect.estimate == pytest.approx(1.1, rel=1e-4)
    assert (row.effect.paired, row.verdict) == (False, None)
    assert "not interleaved" in row.reason
    assert "not interleaved" in comparison.warnings[0]
    from scipy import stats

    welch = stats.ttest_ind(
        [math.log(v) for v in by(BASE, 1.1)], [math.log(v) for v in BASE], equal_var=False
    ).confidence_interval()
    assert row.effect.ci95 == pytest.approx((math.exp(welch.low), math.exp(welch.high)))


def test_two_experiments_are_distinguished_in_all_that_matters(data_of):
    from dataclasses import replace

    def run(cpus, **spec):
        data = data_of({"a": BASE, "b": BASE})
        facts = {"hosts": {"n": {"hostname": "h", "cpus": cpus}}}
        spec = {**data.experiment.spec_json, **spec}
        record = replace(data.experiment, facts=facts, spec_json=spec, state="done")
        return replace(data, experiment=record)

    variants = {"a": {"allocator": {"name": "system"}}, "b": {}}
    first = run(2, engine={"threads": 2}, variants=variants)
    second = run(
        4, engine={"threads": 8}, workloads={"w": {"items": 7}}, schedule="sequential",
        variants={**variants, "a": {"allocator": {"name": "system"}, "params": {"x": "1"}}},
    )  # fmt: skip
    output = compare_unpaired(first, second, "a", "a").warnings[1:]
    assert {line.removeprefix("the two experiments differ in ") for line in output} == {
        "host n cpus: 2 or 4", "engine threads: 2 or 8", "workload w items: none or 7",
        "schedule: interleaved or sequential", "variant a params.x: none or 1",
    }  # fmt: skip
    assert compare_unpaired(first, first, "a", "b").warnings[1:] == ()
    cut = replace(first, experiment=replace(first.experiment, state="interrupted"))
    assert compare_unpaired(cut, first, "a", "b").warnings[1:] == (
        "e1 is interrupted: the comparison uses the blocks measured so far",
    )


ALLOCATORS = {
    "a": {"allocator": {"name": "system"}},
    "b": {"allocator": {"name": "jemalloc-5.1.0"}},
}


@pytest.mark.parametrize(
    ("metric", "variants", "warned"),
    [
        ("fragmentation_rss", ALLOCATORS, True),
        ("fragmentation_payload_rss", ALLOCATORS, False),
        ("fragmentation_rss", {"a": ALLOCATORS["b"], "b": ALLOCATORS["b"]}, False),
        ("ops_per_s", ALLOCATORS, False),
    ],
)
def test_fragmentation_by_usable_size_is_no_comparison_of_allocators(
    data_of, metric, variants, warned
):
    base = [21.0, 21.4, 20.8, 21.1, 21.3, 20.9]
    data = data_of({"a": base, "b": by(base)}, metric)
    data.experiment.spec_json["variants"] = variants
    results = compare(data).warnings
    assert any("use fragmentation_payload_rss to compare" in line for line in results) == warned


@pytest.mark.parametrize("factor", [1.01, 1 / 1.01])
def test_a_change_of_exactly_the_margin_is_within_it_in_both_directions(data_of, factor):
    (_, row) = compare(data_of({"a": [100.0] * 8, "b": [100.0 * factor] * 8})).rows
    assert row.verdict == ("better" if factor > 1 else "worse")
    assert row.small


def test_a_count_that_overflowed_is_reported_like_any_other(data_of):
    """Such as the 2^64 - 1 of a counter that was decreased at zero."""
    wrapped = [2.0**64 - 1] * 6
    (_, row) = compare(data_of({"a": [0.0] * 6, "b": wrapped}, "lost_writes")).rows
    assert row.verdict == "worse"
    assert row.effect.p == 0.0
    (_, row) = compare(data_of({"a": [3.0] * 6, "b": [2.0] * 6}, "lost_writes")).rows
    assert row.effect.p == pytest.approx(0.3615947)  # of 12 or fewer, or 18 or more, of 30 events


@pytest.mark.parametrize(
    ("of_a", "of_b", "warned"),
    [((), (2, 4, 5, 7, 9), "5 trials of b"), ((2, 4, 5, 7, 9), (), "5 trials of a"),
     ((), (2, 4, 5, 7), ""), ((2, 4, 5, 7, 9), (2, 4, 5, 7, 9), ""), ((3, 8), (2, 4, 5, 7, 9), "")],
)  # fmt: skip
def test_discards_of_one_variant_alone_are_a_warning(data, trial, of_a, of_b, warned):
    """A variant that loses documents in half of its trials is compared on the others."""
    trials = [
        trial(block, variant, {"ops_per_s": 100.0 + block},
              status="discarded" if block in lost else "ok", reason="a GET missed" if block in lost else "")
        for block in range(1, 13)
        for variant, lost in (("a", of_a), ("b", of_b))
    ]  # fmt: skip
    warnings = [line for line in compare(data(trials)).warnings if "discarded" in line]
    assert [line.startswith(warned) for line in warnings] == [True] * bool(warned)


def test_a_negative_sum_of_events_is_an_ordinary_difference(data_of):
    """No count is negative, but what a tool of another version stored must not end the report."""
    a, b = [1.0, -2.0, 0.0, -3.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 2.0, 1.0]
    base, row = compare(data_of({"a": a, "b": b}, "misses")).rows
    assert math.isfinite(base.summary.half_width)
    assert all(map(math.isfinite, (*row.effect.ci95, row.effect.p)))
