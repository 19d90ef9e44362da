"""From the rounds of a block to one level an arm: every arm is compared with the baseline of its own round.

A round is one slice of every arm, one right after the other. On a shared machine neighbouring slices meet nearly the
same caches, seconds apart they do not, so what a round has in common is noise: it goes out of the ratio within the
round, and stays in any average over an arm's own slices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Of the rounds, cut off at each end: hardly more than their median is left. A persistent engine's slices have two
# levels, as the flusher has the CPU or not; a mean of the middle 60 % jumps with their shares, the median does not.
# On the quickstart's rounds the half-widths were ±3.1 and ±1.0 %; on ephemeral buckets ±0.9 and ±1.0 %.
DEFAULT_TRIM = 0.45


def levels(
    rates: NDArray[np.float64], baseline: int, trim: float = DEFAULT_TRIM
) -> NDArray[np.float64]:
    """One level an arm, in the unit of `rates`: robust against rare slices that something else had a part in.

    `rates` has a row a round and a column an arm and holds what each slice yielded, as a rate or as a time per
    operation: all > 0. `baseline` is the column that the others are compared with; `trim` the share of rounds left out
    at each end (0 <= trim < 0.5).

    The baseline's level is the trimmed geometric mean of its own slices; another arm's is that level times the trimmed
    geometric mean of its ratios to the baseline of the same round. So level / baseline level is the paired estimate,
    free of what moves from round to round.
    """
    rates = np.asarray(rates, dtype=np.float64)
    if rates.ndim != 2 or rates.size == 0:
        raise ValueError(f"rates of shape {rates.shape}: expected (rounds, arms), neither zero")
    rounds, arms = rates.shape
    if not 0 <= baseline < arms:
        raise ValueError(f"baseline {baseline} is none of {arms} arms")
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim {trim}: expected at least 0 and less than 0.5")
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"a slice of {rounds} rounds yielded nothing, or no number")
    logs = np.log(rates)
    own = logs[:, baseline, np.newaxis]
    level: NDArray[np.float64] = np.exp(trimmed_mean(own, trim) + trimmed_mean(logs - own, trim))
    return level


def trimmed_mean(rows: NDArray[np.float64], trim: float) -> NDArray[np.float64]:
    """Of each column without the share `trim` of its rows at each end, rounded down: scipy.stats.trim_mean.

    Its import would cost every run a second.
    """
    count = len(rows)
    cut = int(trim * count)
    kept = np.partition(rows, (cut, count - cut - 1), axis=0)[cut : count - cut]
    return np.asarray(kept.mean(axis=0))
