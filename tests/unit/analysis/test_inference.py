"""The narrow ways are scipy.stats's: the same numbers for any data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from perfrunner.analysis.inference import (
    false_discovery,
    signed_rank_p,
    t_critical,
    t_interval,
    t_noncentrality,
    t_power,
    t_test,
    welch_error,
)

TAILS = (0.4, 0.025, 1e-3, 1e-6)
SIZES = (2, 3, 6, 10, 40, 1000)


def near(value, **tolerance):
    return pytest.approx(value, **({"rel": 1e-9} | tolerance))


@pytest.mark.parametrize("tail", TAILS)
def test_critical_values(tail):
    freedom = np.array(SIZES) - 1
    assert t_critical(tail, freedom) == near(stats.t.isf(tail, freedom))


@pytest.mark.parametrize("n", SIZES)
def test_welch(n):
    random = np.random.default_rng(n)
    x, y = random.normal(0.0, 1.0, n), random.normal(0.3, 3.0, 7)
    results = stats.ttest_ind(y, x, equal_var=False)
    difference, (error, freedom) = y.mean() - x.mean(), welch_error(x, y)
    assert (difference / error, freedom) == near((results.statistic, results.df))
    assert t_interval(difference, error, freedom, 0.95) == near(
        tuple(results.confidence_interval(0.95))
    )


@pytest.mark.parametrize("n", SIZES)
def test_the_test_and_the_interval_of_a_mean(n):
    data = np.random.default_rng(n).normal(0.3, 1.0, n)
    results = stats.ttest_1samp(data, 0.1)
    assert t_test(data, 0.1) == near((results.statistic, results.pvalue))
    error = float(data.std(ddof=1)) / math.sqrt(n)
    interval = t_interval(float(data.mean()), error, n - 1, 0.95)
    assert interval == near(tuple(results.confidence_interval(0.95)))
    assert interval == near(stats.t.interval(0.95, n - 1, loc=data.mean(), scale=error))


@pytest.mark.parametrize("tail", TAILS[1:3])
@pytest.mark.parametrize("n", SIZES[1:])
def test_power_and_what_gives_it(n, tail):
    critical = float(stats.t.isf(tail, n - 1))
    for size in (0.0, 0.5, 1.0, 2.0):
        power = float(stats.nct.sf(critical, n - 1, size * critical))
        assert t_power(critical, n - 1, size * critical) == near(power, abs=1e-12)
    needed = optimize.brentq(
        lambda d: float(stats.nct.sf(critical, n - 1, d)) - 0.8, 0.0, 4 * critical + 10
    )
    assert t_noncentrality(critical, n - 1, 0.8) == near(needed, rel=1e-4)


def test_power_is_whole_where_the_series_of_the_distribution_ends():
    sizes = np.arange(2, 1000)
    assert t_power(2.0, sizes, 60.0) == near(np.ones(len(sizes)))


@pytest.mark.parametrize("n", range(1, 11))
def test_every_signed_rank_sum(n):
    """All signs of n ranks, so that every sum occurs."""
    for signs in range(2**n):
        data = np.array([(k + 1) * (1 if signs >> k & 1 else -1) for k in range(n)], dtype=float)
        if sum(data > 0) <= n // 2:  # the rest mirrors these
            assert signed_rank_p(data) == near(stats.wilcoxon(data, method="exact").pvalue)


@pytest.mark.parametrize("n", [20, 49, 50, 51, 200])
def test_signed_ranks_of_many_values(n):
    data = np.random.default_rng(n).normal(0.2, 1.0, n)
    assert signed_rank_p(data) == near(stats.wilcoxon(data).pvalue)


@pytest.mark.filterwarnings("ignore:Sample size too small")
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=30).filter(any))
def test_signed_ranks_with_ties_and_zeros(values):
    data = np.array(values, dtype=float)
    sizes = np.abs(data)
    if 0 in sizes or len(set(sizes)) < len(sizes):
        assert signed_rank_p(data) == near(stats.wilcoxon(data, method="approx").pvalue)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_false_discovery(p_values):
    expected = stats.false_discovery_control(p_values, method="bh")
    assert false_discovery(p_values) == near(expected, abs=1e-15)
