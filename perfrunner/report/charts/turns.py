"""Prepare the slices of interleaved trials for charts: paired by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfrunner.measure.turns import levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfrunner.domain import Case
    from perfrunner.measure.turns import Slices
    from perfrunner.results.raw import Turn

Floats = NDArray[np.float64]
FEWEST, MOST = 4, 60  # bins of a block
ROUNDS_A_BIN = 8  # fewer would show only single rounds
NOISIER = 4.0  # ratio of noise of bins to blocks up to which both are visible on one axis
LEAST_REACH = 0.005


@dataclass(frozen=True)
class Pair:
    """A variant and the baseline of its group, round by round."""

    block: int
    base: Slices
    variant: Slices
    answered: NDArray[np.bool_]  # rounds in which every variant of the group had answers

    @property
    def log_ratios(self) -> Floats:
        """Return the log of the variant's rate over the baseline's for each answered round."""
        answered = self.answered
        ratios: Floats = np.log(self.variant.rates[answered] / self.base.rates[answered])
        return ratios

    @property
    def robust(self) -> float:
        """Return the block's robust estimate (as in measure/turns.py) as a log ratio."""
        rates = np.column_stack([self.base.rates, self.variant.rates])
        base, variant = levels(rates[self.answered], 0)
        return float(np.log(variant / base))

    @property
    def total(self) -> float:
        """Return the log ratio of the totals of all slices."""
        rates = [s.ops.sum() / s.wall_ns.sum() for s in (self.base, self.variant)]
        return float(np.log(rates[1] / rates[0]))

    @property
    def seconds(self) -> Floats:
        """Return the start of each round in seconds, unanswered ones included, from the first measured one."""
        first = np.minimum(self.base.start_ns, self.variant.start_ns)
        starts: Floats = (first - first[0]) * 1e-9
        return starts


def binned(compared: Sequence[Pair], over_all: int) -> list[tuple[Floats, Floats]]:
    """Return (share of the block's time, median log ratio) of binned rounds for each block, in at most `over_all` bins.

    There are fewer bins if single rounds are so noisy that they would hide the estimates of the blocks.
    """
    levels = [0.0, *(pair.robust for pair in compared)]
    reach = max(max(levels) - min(levels), LEAST_REACH)
    rounds = min(len(pair.variant.ops) for pair in compared)
    bins = max(FEWEST, min(MOST, over_all // len(compared), rounds // ROUNDS_A_BIN))
    while True:
        by_block = [_bins(pair, bins) for pair in compared]
        low, high = inner(np.concatenate([middles for _, middles in by_block]))
        if bins == FEWEST or high - low <= NOISIER * reach:
            return by_block
        bins = max(FEWEST, bins * 2 // 3)


def inner(middles: Floats) -> tuple[float, float]:
    """Return the range in which bins are drawn, without distant rare ones."""
    low, high = np.percentile(middles, [4, 96])
    return float(low), float(high)


def _bins(pair: Pair, bins: int) -> tuple[Floats, Floats]:
    share = pair.seconds / max(pair.seconds[-1], 1e-9)
    index = np.minimum((share[pair.answered] * bins).astype(np.int64), bins - 1)
    used = np.unique(index)
    ratios = pair.log_ratios
    middles: Floats = np.array([np.median(ratios[index == n]) for n in used])
    return (used + 0.5) / bins, middles


@dataclass(frozen=True)
class Spread:
    """All rounds of a variant as a histogram of log ratios; `beyond` is the share of outermost rounds left out."""

    counts: NDArray[np.int64]
    edges: Floats
    robust: float  # over the blocks
    total: float
    beyond: float


def spread(compared: Sequence[Pair], bars: int, reach: tuple[float, float] | None = None) -> Spread:
    """Return the histogram of a variant's rounds in all blocks; `reach`: range of bars (default: nearly all)."""
    ratios = np.concatenate([pair.log_ratios for pair in compared])
    robust = float(np.mean([pair.robust for pair in compared]))
    total = float(np.mean([pair.total for pair in compared]))
    outer = np.percentile(ratios, [0.5, 99.5])
    low = float(min(*outer, robust, total, -LEAST_REACH))
    high = float(max(*outer, robust, total, LEAST_REACH))
    counts, edges = np.histogram(ratios, bars, reach or (low, high))
    return Spread(counts, edges, robust, total, 1 - float(counts.sum()) / len(ratios))


def pairs(turns: Iterable[Turn], case: Case, baseline: str, variant: str) -> Iterator[Pair]:
    """Yield the pairs by block, without blocks whose rounds do not match."""
    groups: dict[tuple[int, int], dict[str, Slices]] = {}
    for turn in turns:
        if turn.case == case:
            groups.setdefault((turn.block, turn.group), {})[turn.variant] = turn.slices
    for (block, _), variants in sorted(groups.items()):
        if {baseline, variant} <= variants.keys() and len(
            {len(s.ops) for s in variants.values()}
        ) == 1:
            answered = np.all([s.ops > 0 for s in variants.values()], axis=0)
            if answered.any():
                yield Pair(block, variants[baseline], variants[variant], answered)
