"""Decide what to run next: the plan minus stored trials, plus the cases of blocks that must be redone.

A *case* is one (workload, bucket). In a block, a case has one trial of every variant and counts only if it is
complete. A *unit* is what runs at one time: a single trial, or the interleaved trials of a group.

If a trial is discarded, the rest of its case in that block is skipped. The whole case is redone at the end, with all
variants, in a new order and with the next attempt number. A failed trial (crash) also causes a redo, but the other
variants are measured first. A variant that failed twice and never succeeded is *broken*: it causes no further redo,
and it is excluded from groups, because its crash would end them. A discarded trial counts as a failure of its variant
if another variant succeeded in the same attempt. At most `max_discarded` cases are redone.

The schedule is rebuilt by recording the stored trials in the order in which they ran, so that a resumed run continues
exactly where the killed run stopped. It does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from perfrunner.domain import BlockCase, Case, Member, TrialKey, TrialStatus


@dataclass(frozen=True)
class Unit:
    """Trials that run at the same time, in the order of their slots; `left_out` are those of broken variants."""

    tasks: tuple[TrialKey, ...]
    left_out: tuple[TrialKey, ...] = ()


@dataclass
class _CaseState:
    """The results of a case in one block, by attempt."""

    attempts: list[dict[Member, TrialStatus]] = field(default_factory=lambda: [{}])
    order: list[Member] = field(default_factory=list)  # in plan order

    @property
    def latest(self) -> dict[Member, TrialStatus]:
        return self.attempts[-1]


class Schedule:
    """The schedule of an experiment: call `next()` until it returns None, and `record()` after each trial."""

    def __init__(
        self,
        trials: Iterable[TrialKey],
        *,
        max_discarded: int,
        redo_order: Callable[[BlockCase, int], Sequence[Member]],
    ) -> None:
        """Create a schedule. `redo_order` returns the new order of a case's variants for a repeated attempt."""
        self._redo_order = redo_order
        self._max_discarded = max_discarded
        self._plan: list[TrialKey] = []
        self._cases: dict[BlockCase, _CaseState] = {}
        self._excluded: set[str] = set()
        self._redone_before = 0  # redone or pending when the budget was last renewed
        # By (workload, bucket, variant).
        self._failed_before: Counter[tuple[str, str, str]] = Counter()
        self.extend(trials)

    def extend(self, trials: Iterable[TrialKey]) -> None:
        """Add blocks to the plan."""
        for trial in trials:
            self._plan.append(trial)
            self._state(trial.block_case).order.append(trial.member)

    def exclude(self, variant: str) -> None:
        """Exclude a variant that cannot run, e.g. because its build failed; its failures cause no redo."""
        self._excluded.add(variant)

    def renew_budget(self) -> None:
        """Renew the budget of redone cases, and give broken variants another chance, after a run had ended."""
        self._redone_before = self._pending_redos()
        self._failed_before = self._failures()

    def record(self, task: TrialKey, status: TrialStatus) -> None:
        """Record the result of a trial."""
        state = self._state(task.block_case)
        while len(state.attempts) < task.attempt:
            state.attempts.append({})
        state.attempts[task.attempt - 1][task.member] = status

    def next(self) -> Unit | None:
        """Return the next unit to run; None if nothing is left."""
        first = self._first_pass() or self._redo()
        if first is None:
            return None
        if not first.group:
            return Unit((first,))
        tasks = self._group_of(first)
        broken = tuple(task for task in tasks if self._broken(task.block_case, task.variant))
        if len(broken) == len(tasks):  # the cause may be something that they share
            return Unit(tasks)
        return Unit(tuple(task for task in tasks if task not in broken), broken)

    # -- state

    @property
    def redone(self) -> int:
        """Return the number of redone cases, which the budget limits."""
        return sum(len(state.attempts) - 1 for state in self._cases.values())

    @property
    def redos(self) -> int:
        """Return the number of redos, made and pending after discarded trials, since the budget was last renewed."""
        return self._pending_redos() - self._redone_before

    def left(self) -> list[Case]:
        """Return the case of each remaining trial, assuming that no further trial fails or is discarded."""
        cases = [trial.case for trial in self._plan if self._wanted(trial)]
        budget = self._budget - self.redone
        for block_case, state in self._cases.items():
            if self._spoiled(block_case, state):
                if budget > 0:
                    budget -= 1
                    cases += [block_case.case] * len(state.order)
            elif len(state.attempts) > 1:
                missing = sum(1 for variant in state.order if variant not in state.latest)
                cases += [block_case.case] * missing
        return cases

    def close(self, closed: Case, block: int) -> None:
        """Remove the case from all blocks after `block`, because it has reached its precision."""
        self._plan = [trial for trial in self._plan if trial.block <= block or trial.case != closed]

    def restart_partial_cases(self) -> list[BlockCase]:
        """Start a new attempt of all cases of which only some variants ran, because a host changed."""
        partial = [
            case
            for case, state in self._cases.items()
            if state.latest and any(variant not in state.latest for variant in state.order)
        ]
        for case in partial:
            self._cases[case].attempts.append({})
        return partial

    def block_complete(self, block: int) -> bool:
        """Return whether every case of the block has run, apart from redos."""
        return not any(trial.block == block and self._wanted(trial) for trial in self._plan)

    def incomplete_cases(self) -> list[BlockCase]:
        """Return the cases that do not count: spoiled and not redone."""
        return sorted(case for case, state in self._cases.items() if self._spoiled(case, state))

    def given_up(self) -> list[tuple[BlockCase, str]]:
        """Return the discarded trials of broken variants, by case and variant: they are not redone."""
        return sorted(
            (case, variant)
            for case, state in self._cases.items()
            for (variant, _), status in state.latest.items()
            if status == "discarded" and self._broken(case, variant)
        )

    def counts(self, case: BlockCase) -> bool:
        """Return whether the latest attempt of the case is complete."""
        state = self._state(case)
        return not self._spoiled(case, state) and all(
            variant in state.latest for variant in state.order
        )

    @property
    def past_budget(self) -> bool:
        """Return whether more cases are discarded than may be redone, so that the experiment cannot become complete."""
        return self._pending_redos() > self._budget

    def will_redo(self, case: BlockCase) -> bool:
        """Return whether the case is redone in this run. A run that is past its budget ends."""
        spoiled = self._spoiled(case, self._state(case))
        return spoiled and self.redone < self._budget and not self.past_budget

    # -- internal

    def _first_pass(self) -> TrialKey | None:
        for trial in self._plan:
            if self._wanted(trial):
                return trial
        return None

    def _group_of(self, first: TrialKey) -> tuple[TrialKey, ...]:
        """Return the remaining tasks of the group that starts with `first`."""
        state = self._state(first.block_case)
        order = (
            state.order if first.attempt == 1 else self._redo_order(first.block_case, first.attempt)
        )
        begun = state.attempts[first.attempt - 1] if first.attempt <= len(state.attempts) else {}
        members = [
            variant for variant in order if variant[1] == first.group and variant not in begun
        ]
        positions = range(first.position, first.position + len(order))
        return tuple(
            self._task(first.block_case, first.attempt, position, variant)
            for position, variant in zip(positions, members, strict=False)
        )

    def _wanted(self, trial: TrialKey) -> bool:
        case = trial.block_case
        state = self._state(case)
        if len(state.attempts) > 1 or trial.member in state.latest:
            return False
        # The rest of a discarded case is useless if the case will be redone.
        return not (self._discarded(case, state) and self._pending_redos() <= self._budget)

    def _redo(self) -> TrialKey | None:
        for case, state in self._cases.items():  # in plan order
            if len(state.attempts) == 1 or self._spoiled(case, state):
                continue
            for position, variant in enumerate(self._redo_order(case, len(state.attempts)), 1):
                if variant not in state.latest:
                    return self._task(case, len(state.attempts), position, variant)
        if self.redone >= self._budget:
            return None
        for case, state in self._cases.items():
            if self._spoiled(case, state):
                attempt = len(state.attempts) + 1
                return self._task(case, attempt, 1, self._redo_order(case, attempt)[0])
        return None

    @staticmethod
    def _task(case: BlockCase, attempt: int, position: int, member: Member) -> TrialKey:
        variant, group = member
        return TrialKey(
            case.block, attempt, position, case.workload, case.bucket, variant, group=group
        )

    @property
    def _budget(self) -> int:
        """Return the maximum of `redone`."""
        return self._redone_before + self._max_discarded

    def _failures(self) -> Counter[tuple[str, str, str]]:
        """Count the failures of variants, by (workload, bucket, variant)."""
        return Counter(
            (case.workload, case.bucket, variant)
            for case, state in self._cases.items()
            for attempt in state.attempts
            for (variant, _), status in attempt.items()
            if status == "failed" or (status == "discarded" and "ok" in attempt.values())
        )

    def _discarded(self, case: BlockCase, state: _CaseState) -> bool:
        return any(
            status == "discarded" and not self._broken(case, variant)
            for (variant, _), status in state.latest.items()
        )

    def _pending_redos(self) -> int:
        discarded = [case for case, state in self._cases.items() if self._discarded(case, state)]
        return self.redone + len(discarded)

    def _spoiled(self, case: BlockCase, state: _CaseState) -> bool:
        return any(
            status != "ok" and not self._broken(case, variant)
            for (variant, _), status in state.latest.items()
        )

    def _broken(self, case: BlockCase, variant: str) -> bool:
        """Return whether a variant is excluded, or failed more than once in all blocks of a case without success."""
        if variant in self._excluded:
            return True
        key = (case.workload, case.bucket, variant)
        succeeded = any(
            status == "ok" and name == variant
            for other, state in self._cases.items()
            if other.case == case.case
            for attempt in state.attempts
            for (name, _), status in attempt.items()
        )
        return not succeeded and self._failures()[key] - self._failed_before[key] > 1

    def _state(self, case: BlockCase) -> _CaseState:
        return self._cases.setdefault(case, _CaseState())
