"""What to run next: the plan minus what is stored, plus the cells of blocks that must be redone.

A *cell* is one (workload, bucket). Within a block a cell holds one trial of every variant; it counts only as a
whole. What runs as one is a *unit*: a trial that runs alone, or the trials of an ensemble side by side. When one of a
cell's trials is void, the rest of that cell in that block is left out and the whole cell is redone at the end, every
variant, in a fresh order, with the next attempt number. A failed trial (crash) makes its cell be redone too, but the
other variants are still measured first, and a variant that failed twice and never succeeded is not waited for: it is
broken, not unlucky. A broken arm is left out of an ensemble, which its death would end. No arm is ever run again
alone. At most `max_voids` cells are redone.

The schedule is rebuilt by recording stored trials in the order they ran, so a resumed run goes on where the killed
one would have. It does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from perfrunner.run.events import TrialStatus


class Planned(Protocol):
    """The part of a planned trial that matters here (run/plan/order.py's PlannedTrial)."""

    @property
    def block(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def workload(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def ensemble(self) -> int: ...


Arm: TypeAlias = tuple[str, int]  # a variant in an ensemble of its cell (0: alone)


@dataclass(frozen=True, order=True)
class BlockCell:
    """A (workload, bucket) in one block."""

    block: int
    workload: str
    bucket: str


@dataclass(frozen=True)
class Task:
    """One trial to run."""

    block: int
    attempt: int
    position: int
    workload: str
    bucket: str
    variant: str
    ensemble: int = 0

    @property
    def cell(self) -> BlockCell:
        return BlockCell(self.block, self.workload, self.bucket)

    @property
    def arm(self) -> Arm:
        return (self.variant, self.ensemble)


@dataclass(frozen=True)
class Unit:
    """Trials that run at once, in the order of their slots; `left_out` are broken arms that must not join them."""

    tasks: tuple[Task, ...]
    left_out: tuple[Task, ...] = ()


@dataclass
class _CellState:
    attempts: list[dict[Arm, TrialStatus]] = field(default_factory=lambda: [{}])
    order: list[Arm] = field(default_factory=list)  # in plan order

    @property
    def latest(self) -> dict[Arm, TrialStatus]:
        return self.attempts[-1]


class Schedule:
    """`next()` until it gives None, `record()` after each trial."""

    def __init__(
        self,
        trials: Iterable[Planned],
        *,
        max_voids: int,
        redo_order: Callable[[BlockCell, int], Sequence[Arm]],
    ) -> None:
        """`redo_order` gives the fresh order of a cell's arms for an attempt after the first."""
        self._redo_order = redo_order
        self._max_voids = max_voids
        self._plan: list[Planned] = []
        self._cells: dict[BlockCell, _CellState] = {}
        self._excluded: set[str] = set()
        self._redone_before = 0  # or yet to be redone, when the budget was last granted
        self._failed_before: Counter[tuple[str, str, str]] = Counter()  # workload, bucket, variant
        self.extend(trials)

    def extend(self, trials: Iterable[Planned]) -> None:
        """More blocks (a precision rule asked for them)."""
        for trial in trials:
            self._plan.append(trial)
            self._state(_cell(trial)).order.append(_arm(trial))

    def exclude(self, variant: str) -> None:
        """This variant cannot run at all (its build failed): its failures make nothing be redone."""
        self._excluded.add(variant)

    def grant_anew(self) -> None:
        """A run that had ended goes on: with a budget of its own, and another chance for arms that were given up."""
        self._redone_before = self._pending_redos()
        self._failed_before = self._failures()

    def record(self, task: Task, status: TrialStatus) -> None:
        state = self._state(task.cell)
        while len(state.attempts) < task.attempt:
            state.attempts.append({})
        state.attempts[task.attempt - 1][task.arm] = status

    def next(self) -> Unit | None:
        first = self._first_pass() or self._redo()
        if first is None:
            return None
        if not first.ensemble:
            return Unit((first,))
        tasks = self._beside(first)
        broken = tuple(task for task in tasks if self._broken(task.cell, task.variant))
        if len(broken) == len(tasks):  # then it may be something that they share
            return Unit(tasks)
        return Unit(tuple(task for task in tasks if task not in broken), broken)

    # -- questions about the state

    @property
    def redone(self) -> int:
        """How many cells were begun again, the budget's measure."""
        return sum(len(state.attempts) - 1 for state in self._cells.values())

    def left(self) -> list[tuple[str, str]]:
        """(workload, bucket) of each trial that is still to run if nothing more goes wrong."""
        kinds = [(trial.workload, trial.bucket) for trial in self._plan if self._wanted(trial)]
        budget = self._budget - self.redone
        for cell, state in self._cells.items():
            if self._spoiled(cell, state):
                if budget > 0:
                    budget -= 1
                    kinds += [(cell.workload, cell.bucket)] * len(state.order)
            elif len(state.attempts) > 1:
                missing = sum(1 for arm in state.order if arm not in state.latest)
                kinds += [(cell.workload, cell.bucket)] * missing
        return kinds

    def close(self, workload: str, bucket: str, block: int) -> None:
        """Plan no block of this kind of cell after this one (the precision that was asked for is reached)."""
        self._plan = [
            trial
            for trial in self._plan
            if trial.block <= block or (trial.workload, trial.bucket) != (workload, bucket)
        ]

    def begin_partial_cells_again(self) -> list[BlockCell]:
        """Cells of which only some arms ran: their next attempt holds all arms. For a host that changed meanwhile."""
        partial = [
            cell
            for cell, state in self._cells.items()
            if state.latest and any(arm not in state.latest for arm in state.order)
        ]
        for cell in partial:
            self._cells[cell].attempts.append({})
        return partial

    def block_complete(self, block: int) -> bool:
        """Every cell of the block has been dealt with, redos aside."""
        return not any(trial.block == block and self._wanted(trial) for trial in self._plan)

    def incomplete_cells(self) -> list[BlockCell]:
        """Cells that do not count: spoiled, and not redone."""
        return sorted(cell for cell, state in self._cells.items() if self._spoiled(cell, state))

    def counts(self, cell: BlockCell) -> bool:
        """Whether the latest attempt of the cell is whole."""
        state = self._state(cell)
        return not self._spoiled(cell, state) and all(arm in state.latest for arm in state.order)

    @property
    def past_budget(self) -> bool:
        """More cells are void than may be redone: the experiment cannot become whole any more."""
        return self._pending_redos() > self._budget

    def will_redo(self, cell: BlockCell) -> bool:
        return self._spoiled(cell, self._state(cell)) and self.redone < self._budget

    # -- how it decides

    def _first_pass(self) -> Task | None:
        for trial in self._plan:
            if self._wanted(trial):
                return Task(
                    trial.block,
                    1,
                    trial.position,
                    trial.workload,
                    trial.bucket,
                    trial.variant,
                    trial.ensemble,
                )
        return None

    def _beside(self, first: Task) -> tuple[Task, ...]:
        """All tasks of an ensemble of which `first` is the first that has not run."""
        state = self._state(first.cell)
        order = state.order if first.attempt == 1 else self._redo_order(first.cell, first.attempt)
        begun = state.attempts[first.attempt - 1] if first.attempt <= len(state.attempts) else {}
        members = [arm for arm in order if arm[1] == first.ensemble and arm not in begun]
        positions = range(first.position, first.position + len(order))
        return tuple(
            self._task(first.cell, first.attempt, position, arm)
            for position, arm in zip(positions, members, strict=False)
        )

    def _wanted(self, trial: Planned) -> bool:
        cell = _cell(trial)
        state = self._state(cell)
        if len(state.attempts) > 1 or _arm(trial) in state.latest:
            return False
        # the rest of a void cell would be thrown away, unless it cannot be redone any more
        return not (self._void(state) and self._pending_redos() <= self._budget)

    def _redo(self) -> Task | None:
        for cell, state in self._cells.items():  # in plan order
            if len(state.attempts) == 1 or self._spoiled(cell, state):
                continue
            for position, arm in enumerate(self._redo_order(cell, len(state.attempts)), 1):
                if arm not in state.latest:
                    return self._task(cell, len(state.attempts), position, arm)
        if self.redone >= self._budget:
            return None
        for cell, state in self._cells.items():
            if self._spoiled(cell, state):
                attempt = len(state.attempts) + 1
                return self._task(cell, attempt, 1, self._redo_order(cell, attempt)[0])
        return None

    @staticmethod
    def _task(cell: BlockCell, attempt: int, position: int, arm: Arm) -> Task:
        return Task(cell.block, attempt, position, cell.workload, cell.bucket, *arm)

    @property
    def _budget(self) -> int:
        """Of `redone`."""
        return self._redone_before + self._max_voids

    def _failures(self) -> Counter[tuple[str, str, str]]:
        return Counter(
            (cell.workload, cell.bucket, variant)
            for cell, state in self._cells.items()
            for attempt in state.attempts
            for (variant, _), status in attempt.items()
            if status == "failed"
        )

    def _void(self, state: _CellState) -> bool:
        return "void" in state.latest.values()

    def _pending_redos(self) -> int:
        return self.redone + sum(1 for state in self._cells.values() if self._void(state))

    def _spoiled(self, cell: BlockCell, state: _CellState) -> bool:
        if self._void(state):
            return True
        return any(
            status == "failed" and not self._broken(cell, variant)
            for (variant, _), status in state.latest.items()
        )

    def _broken(self, cell: BlockCell, variant: str) -> bool:
        """Failed more than once in this workload and bucket, and never once succeeded, in any block."""
        if variant in self._excluded:
            return True
        outcomes = [
            status
            for other, state in self._cells.items()
            if (other.workload, other.bucket) == (cell.workload, cell.bucket)
            for attempt in state.attempts
            for (name, _), status in attempt.items()
            if name == variant
        ]
        before = self._failed_before[cell.workload, cell.bucket, variant]
        return "ok" not in outcomes and outcomes.count("failed") - before > 1

    def _state(self, cell: BlockCell) -> _CellState:
        return self._cells.setdefault(cell, _CellState())


def _arm(trial: Planned) -> Arm:
    return (trial.variant, trial.ensemble)


def _cell(trial: Planned) -> BlockCell:
    return BlockCell(trial.block, trial.workload, trial.bucket)
