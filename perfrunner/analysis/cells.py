"""Which trials count: the clean blocks of each cell.

A trial that is void or failed takes its whole block of that cell with it, all arms of all ensembles alike, and the
attempt that repeats the block counts instead. One exception: an arm that never once succeeded in a cell cannot be
compared at all; it is left out, and does not take the other arms' blocks with it (only an ensemble that its death
ended).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.analysis.model import Cell, VoidTrial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfrunner.results import TrialRecord


@dataclass(frozen=True)
class Paired:
    """Two arms' values in the blocks that hold both. `apart`: blocks in which they were of different ensembles."""

    base: dict[int, float]
    other: dict[int, float]
    apart: tuple[int, ...] = ()


@dataclass(frozen=True)
class CellBlocks:
    """The trials of a cell that count, by block. `dead` arms never succeeded.

    A block has one trial a variant, but of the baseline one an ensemble where its arms did not all run side by side.
    """

    cell: Cell
    blocks: dict[int, tuple[TrialRecord, ...]]
    dead: tuple[str, ...]

    @property
    def trials(self) -> Iterator[TrialRecord]:
        """All that count, block by block."""
        for trials in self.blocks.values():
            yield from trials

    def values(self, metric: str, variant: str) -> dict[int, float]:
        """The metric's value in each block that has it: of the baseline, the mean over the block's ensembles."""
        found: dict[int, float] = {}
        for block, trials in sorted(self.blocks.items()):
            if by_ensemble := _by_ensemble(trials, metric, variant):
                found[block] = _mean(by_ensemble.values())
        return found

    def paired(self, metric: str, baseline: str, variant: str) -> Paired:
        """Each arm beside the baseline's trial of its own ensemble: of that block, but also of those milliseconds.

        Two arms that were never in one ensemble (a comparison re-based onto another arm) are paired by block alone.
        """
        base: dict[int, float] = {}
        other: dict[int, float] = {}
        apart = []
        for block, trials in sorted(self.blocks.items()):
            x, y = (_by_ensemble(trials, metric, name) for name in (baseline, variant))
            if not x or not y:
                continue
            shared = x.keys() & y.keys()
            if not shared:
                apart.append(block)
            base[block] = _mean(x[e] for e in sorted(shared or x))
            other[block] = _mean(y[e] for e in sorted(shared or y))
        return Paired(base, other, tuple(apart))


def clean_blocks(trials: Iterable[TrialRecord]) -> dict[Cell, CellBlocks]:
    """The cells in the order of their first trial."""
    by_cell: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        by_cell[Cell(trial.workload, trial.bucket)].append(trial)
    return {cell: _clean(cell, found) for cell, found in by_cell.items()}


def void_trials(trials: Iterable[TrialRecord]) -> tuple[VoidTrial, ...]:
    """Every trial that did not count for a reason of its own."""
    return tuple(
        VoidTrial(
            block=t.block,
            attempt=t.attempt,
            cell=Cell(t.workload, t.bucket),
            variant=t.variant,
            status=t.status,
            reason=t.reason,
        )
        for t in trials
        if t.status != "ok"
    )


def _clean(cell: Cell, trials: list[TrialRecord]) -> CellBlocks:
    succeeded = {t.variant for t in trials if t.status == "ok"}
    dead = tuple(dict.fromkeys(t.variant for t in trials if t.variant not in succeeded))
    attempts: dict[tuple[int, int], list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        attempts[trial.block, trial.attempt].append(trial)
    blocks: dict[int, tuple[TrialRecord, ...]] = {}
    for (block, _), arms in sorted(attempts.items()):
        blocks.pop(block, None)  # only the latest attempt counts, whole or not
        alive = [t for t in arms if t.variant not in dead]
        ended = {t.ensemble for t in arms if t.ensemble and t.variant in dead}
        ended &= {t.ensemble for t in alive if t.status != "ok"}  # else it was left out of them
        left = tuple(t for t in alive if t.ensemble not in ended)
        if left and all(t.status == "ok" for t in left):
            blocks[block] = left
    return CellBlocks(cell, blocks, dead)


def _by_ensemble(trials: Iterable[TrialRecord], metric: str, variant: str) -> dict[int, float]:
    return {
        t.ensemble: float(t.metrics[metric])
        for t in trials
        if t.variant == variant and metric in t.metrics
    }


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
