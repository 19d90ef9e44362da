"""Which trials count: the clean blocks of each cell.

A trial that is void or failed takes its whole block of that cell with it, all arms alike, and the
attempt that repeats the block counts instead. One exception: an arm that never once succeeded in a
cell cannot be compared at all; it is left out, and does not take the other arms' blocks with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.analysis.model import Cell, VoidTrial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.results import TrialRecord


@dataclass(frozen=True)
class CellBlocks:
    """The trials of a cell that count: block -> variant -> trial. `dead` arms never succeeded."""

    cell: Cell
    blocks: dict[int, dict[str, TrialRecord]]
    dead: tuple[str, ...]

    def values(self, metric: str, variant: str) -> dict[int, float]:
        """The metric's value in each block that has it."""
        found: dict[int, float] = {}
        for block, arms in sorted(self.blocks.items()):
            trial = arms.get(variant)
            if trial is not None and metric in trial.metrics:
                found[block] = float(trial.metrics[metric])
        return found


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
        if trial.variant not in dead:
            attempts[trial.block, trial.attempt].append(trial)
    blocks: dict[int, dict[str, TrialRecord]] = {}
    for (block, _), arms in sorted(attempts.items()):
        blocks.pop(block, None)  # only the latest attempt counts, whole or not
        if all(t.status == "ok" for t in arms):
            blocks[block] = {t.variant: t for t in arms}
    return CellBlocks(cell, blocks, dead)
