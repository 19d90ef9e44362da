"""The slices of trials that ran side by side, as charts need them: paired by ensemble, and as a rate over time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.rounds import levels
from perfrunner.measure.turns import Slices, read_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from perfrunner.analysis import Cell
    from perfrunner.results import TrialRecord

SLICES_FILE = "slices.json"
LONG, SHORT = 1.0, 0.1  # seconds of a bin; the short ones where the long would be fewer than
FEW = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Turn:
    """One arm's slices in one block."""

    cell: Cell
    block: int
    ensemble: int
    variant: str
    slices: Slices


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


def read_turn(directory: Path, cell: Cell, trial: TrialRecord) -> Turn | None:
    """None of a trial that ran alone. TrialError or OSError where one that did not has no slices to read."""
    path = directory / SLICES_FILE
    if trial.facts.get("schedule") != "side-by-side" and not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TrialError(f"{path.name}: no JSON ({error})") from None
    if not isinstance(document, dict):
        raise TrialError(f"{path.name}: no slices")
    slices = read_slices(document, path.name)
    if not len(slices.ops):
        raise TrialError(f"{path.name}: not one round")
    return Turn(cell, trial.block, trial.ensemble, trial.variant, slices)


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


def rate_points(slices: Slices) -> list[tuple[float, float]]:
    """(seconds in turn, operations a second of them): what the arm did while the load was on it."""
    ends = np.cumsum(slices.wall_ns) * 1e-9
    width = LONG if ends[-1] >= FEW * LONG else SHORT
    bins = ((ends - slices.wall_ns * 0.5e-9) / width).astype(np.int64)
    ops = np.bincount(bins, slices.ops)
    seconds = np.bincount(bins, slices.wall_ns * 1e-9)
    whole = seconds >= width / 2  # the last bin is usually a partial one
    if not whole.any():
        return [(float(ends[-1]), float(slices.ops.sum() / ends[-1]))]
    return [(float((n + 1) * width), float(ops[n] / seconds[n])) for n in np.flatnonzero(whole)]
