"""The few tests that every report asks for, from scipy.special's distributions.

scipy.stats has them all, but to import it costs half a second: half of what a report may take. So each one here is its
textbook formula over the distribution that scipy.stats uses itself, and a test holds it to scipy.stats's numbers
(`tests/unit/analysis/test_inference.py`). What is asked for rarely stays with scipy.stats.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

MOST_EXACT = 50  # values, for the exact signed-rank distribution: scipy's limit too


def t_critical(tail: float, freedom: ArrayLike) -> Array:
    """What Student's t of so many degrees of freedom exceeds with probability `tail`: stats.t.isf."""
    return np.asarray(-special.stdtrit(freedom, tail), dtype=np.float64)


def t_interval(mean: float, error: float, freedom: int, confidence: float) -> tuple[float, float]:
    """Around a mean with this standard error."""
    half = float(t_critical((1 - confidence) / 2, freedom)) * error
    return mean - half, mean + half


def t_test(data: Array, expected: float) -> tuple[float, float]:
    """(t, two-sided p) of the mean of at least two values that spread: stats.ttest_1samp."""
    n = len(data)
    t = (float(data.mean()) - expected) / (float(data.std(ddof=1)) / math.sqrt(n))
    return t, 2 * float(special.stdtr(n - 1, -abs(t)))


def t_power(critical: ArrayLike, freedom: ArrayLike, noncentrality: ArrayLike) -> Array:
    """How likely the noncentral t exceeds `critical`: stats.nct.sf."""
    below = special.nctdtr(freedom, noncentrality, critical)
    return np.asarray(1 - np.nan_to_num(below, nan=0.0))  # the series ends where it is nought


def t_noncentrality(critical: float, freedom: int, power: float) -> float:
    """The noncentrality that gives `t_power` this value."""
    return float(special.nctdtrinc(freedom, 1 - power, critical))


def signed_rank_p(data: Array) -> float:
    """Wilcoxon's two-sided p of values of which at least one is not zero: stats.wilcoxon.

    Exact up to 50 values without ties or zeros. Else, without the zeros, the normal approximation with its correction
    for ties: it is only a check, and scipy's exact way for ties goes through all permutations (a third of a second).
    """
    moved = data[data != 0]
    sizes, place, counts = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    rises, n = float(ranks[moved > 0].sum()), len(moved)
    if len(sizes) == len(data) <= MOST_EXACT:
        chances, at = _signed_rank_chances(n), round(rises)
        return min(1.0, 2 * float(min(chances[: at + 1].sum(), chances[at:].sum())))
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    error = math.sqrt((n * (n + 1) * (2 * n + 1) - ties / 2) / 24)
    return 2 * float(special.ndtr(-abs(rises - n * (n + 1) / 4) / error))


@functools.lru_cache(maxsize=MOST_EXACT)
def _signed_rank_chances(n: int) -> Array:
    """How likely each sum of positive ranks is, from 0 to n(n+1)/2, where every sign is a coin.

    Each rank is in the sum or is not: its distribution is the product of (1 + x^k) / 2.
    """
    chances = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] = chances
        longer[rank:] += chances
        chances = longer / 2
    return chances


def false_discovery(p_values: Sequence[float]) -> Array:
    """Benjamini and Hochberg's q values, in the order of the p values: stats.false_discovery_control."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    steps = p[order] * (len(p) / np.arange(1, len(p) + 1))
    q = np.empty_like(p)
    q[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return np.clip(q, 0.0, 1.0)
