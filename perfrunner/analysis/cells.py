"""Which trials count: the clean blocks of each cell.

A trial that is void or failed takes its whole block of that cell with it, all arms of all ensembles alike, and the
attempt that repeats the block counts instead. One exception: an arm that never once succeeded in a cell cannot be
compared at all; it is left out, and does not take the other arms' blocks with it (only an ensemble that its death
ended).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from perfrunner.analysis.model import Cell, VoidTrial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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

    def of(self, variant: str) -> Sequence[TrialRecord]:
        """One arm's trials that count, block by block."""
        return self._by_variant.get(variant, ())

    def values(self, metric: str, variant: str) -> Mapping[int, float]:
        """The metric's value in each block that has it: of the baseline, the mean over the block's ensembles."""
        return self._means.get((metric, variant), {})

    def paired(self, metric: str, baseline: str, variant: str) -> Paired:
        """Each arm beside the baseline's trial of its own ensemble: of that block, but also of those milliseconds.

        Two arms that were never in one ensemble (a comparison re-based onto another arm) are paired by block alone.
        """
        its, others = (self._figures.get((metric, name), {}) for name in (baseline, variant))
        both = [block for block in its if block in others]
        base, other = (
            {block: values[block] for block in both}
            for values in (self.values(metric, baseline), self.values(metric, variant))
        )
        apart = []
        for block in both:
            x, y = its[block], others[block]
            if x.keys() == y.keys():
                continue
            shared = sorted(x.keys() & y.keys())
            if shared:
                base[block], other[block] = (_mean([arm[e] for e in shared]) for arm in (x, y))
            else:
                apart.append(block)
        return Paired(base, other, tuple(apart))

    @cached_property
    def metrics(self) -> frozenset[str]:
        """All that any trial has."""
        return frozenset(metric for metric, _ in self._figures)

    @cached_property
    def _by_variant(self) -> dict[str, list[TrialRecord]]:
        found: dict[str, list[TrialRecord]] = defaultdict(list)
        for trial in self.trials:
            found[trial.variant].append(trial)
        return found

    @cached_property
    def _means(self) -> dict[tuple[str, str], dict[int, float]]:
        return {
            key: {block: _mean([*its.values()]) for block, its in blocks.items()}
            for key, blocks in self._figures.items()
        }

    @cached_property
    def _figures(self) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
        """By metric and variant, in the order of blocks: block -> ensemble -> value."""
        found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
        for block, trials in sorted(self.blocks.items()):
            for trial in trials:
                for metric, value in trial.metrics.items():
                    its = found.setdefault((metric, trial.variant), {})
                    its.setdefault(block, {})[trial.ensemble] = float(value)
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


def _mean(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else sum(values) / len(values)
