"""What must hold for any data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfrunner.analysis.estimate import (
    NotARatioError,
    Pairing,
    adjust,
    paired_effect,
    paired_effects,
    summarise,
    summarise_all,
)
from perfrunner.analysis.model import Effect
from perfrunner.analysis.noise import half_width
from perfrunner.analysis.verdict import (
    MOST_BLOCKS,
    decide,
    interval_at,
    more_blocks,
    smallest_visible,
)
from perfrunner.domain import MIN_BLOCKS

positive = st.floats(1e-3, 1e9)
pairs = st.lists(st.tuples(positive, positive), min_size=2, max_size=12)
signed = st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=2, max_size=12)


def variants(values):
    return (dict(enumerate((x for x, _ in values), 1)), dict(enumerate((y for _, y in values), 1)))


VALUES = st.one_of(st.floats(-3, 1e3), st.sampled_from([0.0, 5.0]))


@given(st.lists(st.tuples(st.sampled_from(["ratio", "difference"]), st.lists(st.tuples(VALUES, VALUES),
       min_size=1, max_size=7)), max_size=8))  # fmt: skip
@example([("ratio", [(1.0, 1.0), (1.0, 1.4671176425046779e-195)])])
def test_effects_of_many_are_those_of_each(asked):
    pairings = [
        Pairing(kind, {b: x for b, (x, _) in enumerate(pairs)}, {b: y for b, (_, y) in enumerate(pairs)}, 0.01, 0.1)
        for kind, pairs in asked
    ]  # fmt: skip
    variants = [variant for pairing in pairings for variant in (pairing.base, pairing.other)]
    assert summarise_all(variants) == [summarise(variant) for variant in variants]
    for results, pairing in zip(paired_effects("a", pairings), pairings, strict=True):
        if isinstance(results, NotARatioError):
            wrong = next(b for b in pairing.base if min(pairing.base[b], pairing.other[b]) <= 0)
            assert pairing.kind == "ratio"
            assert f"block {wrong} has" in str(results)
        else:
            kind, base, other, *rest = pairing
            assert results == paired_effect(kind, "a", base, other, *rest)


@given(pairs)
def test_swapping_the_baseline_inverts_the_ratio(values):
    a, b = variants(values)
    there, back = paired_effect("ratio", "a", a, b, 0.01), paired_effect("ratio", "b", b, a, 0.01)
    assert there.estimate == pytest.approx(1 / back.estimate, rel=1e-9)
    assert there.ci95[0] == pytest.approx(1 / back.ci95[1], rel=1e-6)
    assert there.p == pytest.approx(back.p, rel=1e-6, abs=1e-12)


@given(pairs, st.floats(1e-3, 1e3))
def test_a_ratio_does_not_depend_on_the_unit(values, factor):
    a, b = variants(values)
    scaled = variants([(x * factor, y * factor) for x, y in values])
    single, other = (
        paired_effect("ratio", "a", a, b, 0.01),
        paired_effect("ratio", "a", *scaled, 0.01),
    )
    assert single.estimate == pytest.approx(other.estimate, rel=1e-9)
    assert single.p == pytest.approx(other.p, rel=1e-4, abs=1e-9)


@given(signed)
def test_swapping_the_baseline_negates_a_difference(values):
    a, b = variants(values)
    there = paired_effect("difference", "a", a, b, 1.0)
    back = paired_effect("difference", "b", b, a, 1.0)
    assert there.estimate == -back.estimate
    assert there.ci95 == pytest.approx((-back.ci95[1], -back.ci95[0]), rel=1e-9, abs=1e-12)


@given(signed, st.randoms())
def test_the_order_of_the_blocks_does_not_matter(values, random):
    a, b = variants(values)
    keys = list(a)
    random.shuffle(keys)
    shuffled = paired_effect("difference", "a", {k: a[k] for k in keys}, b, 1.0)
    assert shuffled == paired_effect("difference", "a", a, b, 1.0)


@given(signed)
def test_every_number_of_a_summary_is_finite_or_none(values):
    summary = summarise(variants(values)[0])
    low, high = summary.ci95
    slack = 1e-9 * max(1.0, abs(summary.mean))
    assert low - slack <= summary.mean <= high + slack
    assert summary.minimum - slack <= summary.mean <= summary.maximum + slack
    for number in (summary.mean, summary.sd, low, high, summary.cv or 0.0):
        assert math.isfinite(number)
    assert set(summary.outliers) <= summary.values.keys()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_q_is_never_below_p_and_keeps_the_order(p_values):
    q_values = adjust(p_values)
    assert all(q >= p - 1e-12 and q <= 1 for p, q in zip(p_values, q_values, strict=True))
    ranked = [q for _, q in sorted(zip(p_values, q_values, strict=True))]
    assert all(x <= y + 1e-12 for x, y in itertools.pairwise(ranked))


def effect(estimate, half, q=0.5, n=10, kind="difference", margin=1.0):
    from scipy import stats

    sd = half * math.sqrt(n) / stats.t.isf(0.025, n - 1)
    return Effect(
        kind, "a", n, estimate, (estimate - half, estimate + half), q, None, sd, q, margin, q=q
    )


@given(st.floats(-5, 5), st.floats(0.01, 5), st.floats(0, 1), st.integers(2, 30))
def test_each_verdict_is_for_its_reason(estimate, half, q, n):
    results = effect(estimate, half, q, n)
    verdict, small, reason = decide(results, "higher")
    low, high = results.ci95
    if n < MIN_BLOCKS:
        assert verdict is None
        assert reason
    elif verdict in ("better", "worse"):
        assert q < 0.05
        assert low > 0 if verdict == "better" else high < 0
        assert small == (low >= -1.0 and high <= 1.0)
    elif verdict == "same":
        inner_low, inner_high = interval_at(results, 0.9)
        assert low <= inner_low <= inner_high <= high
        assert inner_low >= -1.0
        assert inner_high <= 1.0
    else:
        assert verdict == "unsure"
    assert decide(results, "lower")[0] == {"better": "worse", "worse": "better"}.get(
        verdict, verdict
    )
    assert decide(results, "none")[0] is None


@given(st.floats(-5, 5), st.floats(0.05, 5), st.integers(6, 30))
def test_more_blocks_is_positive_and_bounded(estimate, half, n):
    (plan,) = more_blocks([effect(estimate, half, n=n)])
    assert plan is None or (1 <= plan[0] <= MOST_BLOCKS and plan[1] > 0)


def test_a_plan_finds_a_change_of_the_size_that_it_names():
    """In about 80 % of experiments of so many blocks."""
    results = effect(0.8, 1.0, q=0.1, n=8, margin=0.5)
    (plan,) = more_blocks([results])
    assert plan is not None
    more, visible = plan
    rng = np.random.default_rng(3)
    from scipy import stats

    level = 0.05 * results.p / results.q
    draws = rng.normal(visible, results.sd, (2000, results.n + more))
    share = (stats.ttest_1samp(draws, 0, axis=1).pvalue < level).mean()
    assert 0.77 <= share <= 0.83


def test_a_plan_for_a_later_look_has_more_blocks():
    results = effect(0.8, 1.0, q=0.1, n=8, margin=0.5)
    (first,), (later,) = more_blocks([results]), more_blocks([results], level=0.005)
    assert first is not None
    assert later is not None
    assert first[0] < later[0] < 2.2 * first[0]


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.01, 5), st.integers(6, 40)), max_size=6))
def test_more_blocks_of_many_are_those_of_each(asked):
    effects = [effect(estimate, half, n=n) for estimate, half, n in asked]
    assert more_blocks(effects) == [more_blocks([single])[0] for single in effects]


@pytest.mark.parametrize(("estimate", "half"), [(0.8, 1.0), (2.0, 3.0), (0.1, 1.5), (1.05, 4.0)])
def test_more_blocks_are_the_fewest(estimate, half):
    """Searched one by one."""
    results = effect(estimate, half, q=0.2, n=8, margin=1.0)
    level = 0.05 * results.p / results.q
    likely = estimate * max(0.0, 1 - (results.sd / math.sqrt(8) / estimate) ** 2)

    def power(size, tail, n):
        from scipy import stats

        return stats.nct.sf(stats.t.isf(tail, n - 1), n - 1, size / results.sd * math.sqrt(n))

    def settles(n):
        if power(max(likely, 1.0), level / 2, n) >= 0.8:
            return True
        return likely < 1.0 and power(1.0 - likely, 0.05, n) >= (0.8 if likely > 0 else 0.9)

    fewest = next(n for n in range(9, 1009) if settles(n))
    (plan,) = more_blocks([results])
    assert plan is not None
    assert plan[0] == fewest - 8


def test_an_effect_on_the_edge_of_the_margin_asks_for_many_blocks():
    assert more_blocks([effect(0.0, 400.0, margin=1.0)]) == [None]


@given(st.integers(2, 7), st.floats(0.1, 200), st.sampled_from([0.05, 0.005, 1e-4]))
def test_wild_ratios_have_finite_intervals_above_zero(blocks, spread, level):
    """Two blocks whose ratios differ by a factor of a hundred have an interval beyond all floating-point numbers."""
    base = dict.fromkeys(range(blocks), 1.0)
    other = {block: math.exp(spread * (-1) ** block) for block in base}
    effect = paired_effect("ratio", "a", base, other, 0.01)
    for interval in (effect.ci95, interval_at(effect, 1 - level)):
        assert interval is not None
        assert 0 < interval[0] <= effect.estimate <= interval[1] < math.inf
    for size in (smallest_visible(effect, level), half_width(effect)):
        assert size is not None
        assert 0 < size < math.inf
