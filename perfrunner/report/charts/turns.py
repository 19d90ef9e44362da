"""The slices of trials that ran side by side, as charts need them: paired by ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfrunner.measure.rounds import levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfrunner.analysis import Cell
    from perfrunner.measure.turns import Slices
    from perfrunner.results.slices import Turn

Floats = NDArray[np.float64]
FEWEST, MOST = 4, 60  # bins of a block
ROUNDS_A_BIN = 8  # fewer would show single rounds, and nothing else
NOISIER = 4.0  # bins than blocks: as far as both are still seen on one axis
LEAST_REACH = 0.005


@dataclass(frozen=True)
class Pair:
    """An arm beside the baseline of its own ensemble: round for round."""

    block: int
    base: Slices
    arm: Slices
    answered: NDArray[np.bool_]  # the rounds in which every arm of the ensemble was answered at all

    @property
    def log_ratios(self) -> Floats:
        """Of each answered round: log of the arm's rate over the baseline's."""
        answered = self.answered
        found: Floats = np.log(self.arm.rates[answered] / self.base.rates[answered])
        return found

    @property
    def robust(self) -> float:
        """The block's estimate as the trials have it (measure/rounds.py), as a log ratio."""
        rates = np.column_stack([self.base.rates, self.arm.rates])
        base, arm = levels(rates[self.answered], 0)
        return float(np.log(arm / base))

    @property
    def total(self) -> float:
        """By totals, with every slice in it, as a log ratio."""
        rates = [s.ops.sum() / s.wall_ns.sum() for s in (self.base, self.arm)]
        return float(np.log(rates[1] / rates[0]))

    @property
    def seconds(self) -> Floats:
        """When each round began (those that were not answered, too), from the first measured one."""
        first = np.minimum(self.base.start_ns, self.arm.start_ns)
        found: Floats = (first - first[0]) * 1e-9
        return found


def binned(its: Sequence[Pair], over_all: int) -> list[tuple[Floats, Floats]]:
    """Of each block (share of its time, median log ratio) of its rounds in bins; `over_all` bins at most.

    Fewer where single rounds are so noisy that nobody would see the blocks' estimates beside the bins.
    """
    levels = [0.0, *(pair.robust for pair in its)]
    reach = max(max(levels) - min(levels), LEAST_REACH)
    rounds = min(len(pair.arm.ops) for pair in its)
    bins = max(FEWEST, min(MOST, over_all // len(its), rounds // ROUNDS_A_BIN))
    while True:
        found = [_bins(pair, bins) for pair in its]
        low, high = inner(np.concatenate([middles for _, middles in found]))
        if bins == FEWEST or high - low <= NOISIER * reach:
            return found
        bins = max(FEWEST, bins * 2 // 3)


def inner(middles: Floats) -> tuple[float, float]:
    """Between which bins are drawn; rare ones reach far."""
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
    """All rounds of an arm as a histogram of log ratios; the outermost are left out, `beyond` says what share."""

    counts: NDArray[np.int64]
    edges: Floats
    robust: float  # over the blocks
    total: float
    beyond: float


def spread(its: Sequence[Pair], bars: int, reach: tuple[float, float] | None = None) -> Spread:
    """Of one arm's rounds in all blocks; `reach`: of the bars, else what nearly all rounds need."""
    ratios = np.concatenate([pair.log_ratios for pair in its])
    robust = float(np.mean([pair.robust for pair in its]))
    total = float(np.mean([pair.total for pair in its]))
    outer = np.percentile(ratios, [0.5, 99.5])
    low = float(min(*outer, robust, total, -LEAST_REACH))
    high = float(max(*outer, robust, total, LEAST_REACH))
    counts, edges = np.histogram(ratios, bars, reach or (low, high))
    return Spread(counts, edges, robust, total, 1 - float(counts.sum()) / len(ratios))


def pairs(turns: Iterable[Turn], cell: Cell, baseline: str, variant: str) -> Iterator[Pair]:
    """By block; where the rounds of the two do not match there is none."""
    ensembles: dict[tuple[int, int], dict[str, Slices]] = {}
    for turn in turns:
        if turn.cell == cell:
            ensembles.setdefault((turn.block, turn.ensemble), {})[turn.variant] = turn.slices
    for (block, _), arms in sorted(ensembles.items()):
        if {baseline, variant} <= arms.keys() and len({len(s.ops) for s in arms.values()}) == 1:
            answered = np.all([s.ops > 0 for s in arms.values()], axis=0)
            if answered.any():
                yield Pair(block, arms[baseline], arms[variant], answered)
