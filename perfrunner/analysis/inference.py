"""Compute the few tests that every report needs, from scipy.special's distributions.

scipy.stats has all of them, but importing it takes half a second, half of the time that a report may take.
Each function is the textbook formula over the distribution that scipy.stats itself uses, and a test compares
it with scipy.stats (`tests/unit/analysis/test_inference.py`).
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

V = TypeVar("V", np.float64, float, "Array")
MOST_LOG = 400.0  # as a factor, with room for the axis of a chart, it is still a finite number
MOST_EXACT = 50  # values, for the exact signed-rank distribution; scipy has the same limit


@functools.cache
def special() -> ModuleType:
    """Return scipy.special. It is imported on first use: importing it is a fifth of the CPU time to import a run."""
    return importlib.import_module("scipy.special")


def ratio_of(log: V) -> V:
    """Return the ratio of a log ratio. An interval of a few wild ratios stays finite and above zero."""
    ratio: V = np.exp(np.clip(log, -MOST_LOG, MOST_LOG))
    return ratio


def t_critical(tail: ArrayLike, freedom: ArrayLike) -> Array:
    """Return the value that Student's t exceeds with probability `tail`: stats.t.isf."""
    return np.asarray(-special().stdtrit(freedom, tail), dtype=np.float64)


def t_interval(mean: V, error: V, freedom: float, confidence: float) -> tuple[V, V]:
    """Return the interval around a mean with this standard error, or around many."""
    half = error * float(t_critical((1 - confidence) / 2, freedom))
    return mean - half, mean + half


def t_test(data: Array, expected: ArrayLike) -> tuple[Array, Array]:
    """Return (t, two-sided p) of the mean along the last axis: stats.ttest_1samp.

    There must be at least two values, and they must spread.
    """
    n = data.shape[-1]
    distance = data.mean(axis=-1) - np.asarray(expected, dtype=np.float64)
    t = distance / (data.std(axis=-1, ddof=1) / math.sqrt(n))
    return t, 2 * special().stdtr(n - 1, -np.abs(t))


def welch_error(x: Array, y: Array) -> tuple[float, float]:
    """Return (standard error, degrees of freedom) of a difference of means, as stats.ttest_ind(equal_var=False)."""
    of_x, of_y = (float(values.var(ddof=1)) / len(values) for values in (x, y))
    freedom = (of_x + of_y) ** 2 / (of_x**2 / (len(x) - 1) + of_y**2 / (len(y) - 1))
    return math.sqrt(of_x + of_y), freedom


def t_power(critical: ArrayLike, freedom: ArrayLike, noncentrality: ArrayLike) -> Array:
    """Return the probability that the noncentral t exceeds `critical`: stats.nct.sf."""
    below = special().nctdtr(freedom, noncentrality, critical)
    return np.asarray(1 - np.nan_to_num(below, nan=0.0))  # the series is NaN where it is zero


def t_noncentrality(critical: float, freedom: int, power: float) -> float:
    """Return the noncentrality at which `t_power` has this value."""
    return float(special().nctdtrinc(freedom, 1 - power, critical))


def signed_rank_p(data: Array) -> Array:
    """Return Wilcoxon's two-sided p along the last axis: stats.wilcoxon. NaN if all values are zero.

    Exact for up to 50 values without ties or zeros. Otherwise the zeros are dropped and the normal
    approximation with a correction for ties is used: it is only a check, and scipy's exact method for ties
    enumerates all permutations (a third of a second).
    """
    n = data.shape[-1]
    rows = data.reshape(-1, n)
    order = np.argsort(np.abs(rows), axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    sizes = np.abs(ordered)
    exact = (sizes[:, 0] > 0) & (np.diff(sizes, axis=1) > 0).all(axis=1) & (n <= MOST_EXACT)
    p = np.empty(len(rows))
    if exact.any():
        p[exact] = _signed_rank_p(n)[(ordered[exact] > 0) @ np.arange(1, n + 1)]
    for place in np.flatnonzero(~exact):
        p[place] = _about_signed_rank_p(rows[place])
    return p.reshape(data.shape[:-1])


def _about_signed_rank_p(data: Array) -> float:
    """Return the signed-rank p by the normal approximation."""
    moved = data[data != 0]
    if not len(moved):
        return math.nan
    _, place, counts = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    rises, n = float(ranks[moved > 0].sum()), len(moved)
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    error = math.sqrt((n * (n + 1) * (2 * n + 1) - ties / 2) / 24)
    return 2 * float(special().ndtr(-abs(rises - n * (n + 1) / 4) / error))


@functools.lru_cache(maxsize=MOST_EXACT)
def _signed_rank_p(n: int) -> Array:
    """Return the two-sided p of each sum of positive ranks, from 0 to n(n+1)/2, under random signs.

    Each rank is in the sum or not, so the distribution is the product of (1 + x^k) / 2.
    """
    chances: Array = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] = chances
        longer[rank:] += chances
        chances = longer / 2
    below, above = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]
    p: Array = np.minimum(1.0, 2 * np.minimum(below, above))
    return p


def false_discovery(p_values: Sequence[float]) -> Array:
    """Return Benjamini and Hochberg's q values in the order of the p values: stats.false_discovery_control."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    steps = p[order] * (len(p) / np.arange(1, len(p) + 1))
    q = np.empty_like(p)
    q[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return np.clip(q, 0.0, 1.0)
