"""What is kept and told of each trial: in the store, in the journal, to the listener, and in the count of the run."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.errors import StoreError
from perfrunner.results import ResultStore, TrialRecord
from perfrunner.run import events as ev
from perfrunner.run.interrupt import SignalGuard
from perfrunner.run.journal import PROGRESS, Journal
from perfrunner.run.opening import GRANTED, Opened
from perfrunner.run.plan.eta import EtaEstimator
from perfrunner.run.plan.schedule import Schedule, Task, Unit
from perfrunner.run.provisional import SoFar
from perfrunner.run.trial.seats import Deployed, TrialResult
from perfrunner.spec.cell import CellName
from perfrunner.spec.model import Spec


@dataclass
class Tally:
    """Of one run. `schedule` may be another one until the first trial of the experiment has been recorded."""

    spec: Spec
    opened: Opened
    store: ResultStore
    journal: Journal
    guard: SignalGuard
    listener: ev.Listener
    schedule: Schedule
    eta: EtaEstimator = field(init=False)
    counts: dict[str, int] = field(default_factory=lambda: {"ok": 0, "void": 0, "failed": 0})
    afterwards: Sequence[CellName] = ()  # of each trial that follows the blocks: it takes time, too
    clock: Callable[[], float] = time.monotonic
    so_far: SoFar = field(init=False)
    # By cause: the trials that met it.
    _failures: dict[str, list[str]] = field(default_factory=dict)
    _foreseen: dict[CellName, int] = field(default_factory=dict)
    _warned_of_raw: bool = False
    _since: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.eta = EtaEstimator(
            {(w, b): self.spec.workloads[w].expected_seconds for w, b in self.spec.cells}
        )

        self.so_far = SoFar(self.spec)

    def start_clock(self) -> None:
        """A unit takes what passes from here, or from the end of the one before, to its end: links and looks too."""
        self._since = self.clock()

    @property
    def done(self) -> int:
        """Trials that ended, before a resume too."""
        return sum(self.counts.values())

    @property
    def total(self) -> int:
        """Those that ended, and those that are left."""
        return self.done + len(self._likely_left())

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each cause: where it was met first, and how often."""
        return tuple(
            f"{_first_of(places)}: {why}" if places else why
            for why, places in self._failures.items()
        )

    def fail(self, why: str) -> None:
        """The run fails of something that is no trial's."""
        self._failures.setdefault(why, [])

    def foresee(self, kind: CellName, trials: int) -> None:
        """So many trials beyond those that are planned (below 0: fewer) are likely, as far as its precision tells."""
        self._foreseen[kind] = trials

    def _likely_left(self) -> list[CellName]:
        kinds = Counter(self.schedule.left())
        for kind, trials in self._foreseen.items():
            kinds[kind] = max(kinds[kind] + trials, 0)
        return list(kinds.elements())

    def recall(self) -> None:
        """The trials that were stored before this run."""
        granted = set(self.opened.experiment.facts.get(GRANTED, ()))
        for number, trial in enumerate(self.opened.trials):
            if number in granted:
                self._forget_failures()
            task = Task(
                trial.block,
                trial.attempt,
                trial.position,
                trial.workload,
                trial.bucket,
                trial.variant,
                trial.ensemble,
            )
            arms = trial.facts.get("arms") or [trial.variant]  # they shared the time
            self._count(task, trial.status, trial.reason, trial.seconds / len(arms))
            self.so_far.add(task, trial)
            if self.schedule.counts(task.cell):
                self.so_far.whole(task.cell)
        if len(self.opened.trials) in granted:
            self._forget_failures()

    def start(self, unit: Unit) -> None:
        """A unit is about to run."""
        task = unit.tasks[0]
        beside = tuple(other.variant for other in unit.tasks[1:])
        self.journal.append(
            "trial-started",
            **_place(task),
            beside=beside,
        )
        self.listener.on_event(
            ev.TrialStarted(
                number=self.done + 1,
                total=self.total,
                **_place(task),
                beside=beside,
            )
        )

    def keep(self, results: Sequence[TrialResult], deployed: Mapping[str, Deployed]) -> None:
        """The trials of a unit, all at once: store first, then journal; neither is torn by a signal."""
        took = self._took(results)
        with self.guard.shield():
            self.store.add_trials(
                self.opened.experiment.id, [self._record(result, deployed) for result in results]
            )
            for result in results:
                task = result.task
                self.journal.append(
                    "trial-finished",
                    block=task.block,
                    attempt=task.attempt,
                    variant=task.variant,
                    status=result.status,
                    reason=result.reason,
                )
                self._count(task, result.status, result.reason, took)
                self.so_far.add(task, result)
            for result in results:
                self.keep_raw(result.directory)
        total = self.total
        for result in results:
            self._tell(result, total)
        void = [result for result in results if result.status == "void"]
        for result in void[:1]:
            self._void(result.task, result.reason)
        self._tell_estimates(results[0].task)
        self.tell_progress()

    def keep_raw(self, directory: Path) -> None:
        """A shared directory that is away costs no trial: the files are in the run's own directory, too."""
        try:
            self.store.keep_raw(self.opened.experiment.id, self._raw_dir(directory), directory)
        except StoreError as error:
            if not self._warned_of_raw:
                self.listener.on_event(
                    ev.Warned(f"{error.message}; they stay in {directory.parent}")
                )
            self._warned_of_raw = True

    def _raw_dir(self, directory: Path) -> str:
        return str(directory.relative_to(self.opened.directory.parent))

    def _record(self, result: TrialResult, deployed: Mapping[str, Deployed]) -> TrialRecord:
        task = result.task
        return TrialRecord(
            block=task.block,
            attempt=task.attempt,
            position=task.position,
            workload=task.workload,
            bucket=task.bucket,
            variant=task.variant,
            build_id=deployed[task.variant].build_id if task.variant in deployed else "",
            status=result.status,
            reason=result.reason,
            started_at=result.started_at,
            finished_at=result.finished_at,
            metrics=dict(result.metrics),
            facts=dict(result.facts),
            raw_dir=self._raw_dir(result.directory),
            ensemble=task.ensemble,
        )

    def _took(self, results: Sequence[TrialResult]) -> float:
        """Seconds of each of them."""
        if self._since is None:
            return results[0].seconds / len(results)
        now = self.clock()
        took, self._since = now - self._since, now
        return took / len(results)

    def _tell_estimates(self, task: Task) -> None:
        if self.schedule.counts(task.cell) and (found := self.so_far.whole(task.cell)):
            self.listener.on_event(found)

    def _tell(self, result: TrialResult, total: int) -> None:
        task = result.task
        self.listener.on_event(
            ev.TrialFinished(
                number=self.done,
                total=total,
                **_place(task),
                status=result.status,
                reason=result.reason,
                seconds=result.seconds,
                metrics=result.metrics,
                directory=result.directory,
            )
        )

    def _void(self, task: Task, reason: str) -> None:
        redo = self.schedule.will_redo(task.cell)
        self.journal.append("void", cell=task.cell, variant=task.variant, reason=reason, redo=redo)
        self.listener.on_event(
            ev.BlockVoid(
                block=task.block,
                workload=task.workload,
                bucket=task.bucket,
                variant=task.variant,
                reason=reason,
                redo=redo,
                voids=self.counts["void"],
                max_voids=self.spec.limits.max_voids,
            )
        )

    def _count(self, task: Task, status: ev.TrialStatus, reason: str, seconds: float) -> None:
        self.schedule.record(task, status)
        self.counts[status] += 1
        if status == "ok":
            self.eta.add((task.workload, task.bucket), seconds)
        elif status == "failed":
            place = f"block {task.block}, {task.variant} · {task.bucket} · {task.workload}"
            self._failures.setdefault(reason, []).append(place)

    def _forget_failures(self) -> None:
        """What failed before the run was taken up again is redone, or is told as a cell that does not count."""
        self.schedule.grant_anew()
        self._failures.clear()

    def tell_progress(self) -> None:
        """How far the run is and how long the rest takes, to the listener and in the journal (for other processes)."""
        left = self._likely_left()
        seconds = self.eta.left([*left, *self.afterwards])
        eta = ev.Eta(seconds, self.done, self.done + len(left))
        self.journal.append(PROGRESS, **dataclasses.asdict(eta))
        self.listener.on_event(eta)


def _first_of(places: Sequence[str]) -> str:
    more = len(places) - 1
    return places[0] + (f" (and {more} more)" if more else "")


def _place(task: Task) -> dict[str, Any]:
    """Where a trial stands in its experiment, as the journal and the events name it."""
    return {
        "block": task.block,
        "attempt": task.attempt,
        "workload": task.workload,
        "bucket": task.bucket,
        "variant": task.variant,
    }
