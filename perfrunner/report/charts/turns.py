"""The slices of trials that ran side by side, as charts need them: paired by ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfrunner.measure.rounds import levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfrunner.analysis import Cell
    from perfrunner.measure.turns import Slices
    from perfrunner.results.slices import Turn

Floats = NDArray[np.float64]


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
