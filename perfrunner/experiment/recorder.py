"""Record the trials of one run and derive its progress: store, journal, events, time left and provisional estimates."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.analysis.estimate import NotARatioError, Pairing, paired_effects
from perfrunner.analysis.looks import Look
from perfrunner.domain import MIN_BLOCKS, BlockCase, Case, TrialKey, TrialStatus, trial_place
from perfrunner.errors import StoreError
from perfrunner.experiment import events as ev
from perfrunner.experiment.outdir import PROGRESS
from perfrunner.experiment.schedule import Schedule, Unit
from perfrunner.experiment.session import CHANGED, GRANTED, RunContext
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.results import TrialRecord
from perfrunner.results.files import sync_files
from perfrunner.spec.metrics import metric_type
from perfrunner.spec.model import Spec


class EtaEstimator:
    """An estimate of the remaining time, in seconds, from the mean duration of each case's trials.

    `expected` are guesses from the spec, used for a case until one of its trials has ended.
    """

    def __init__(self, expected: Mapping[Case, float] | None = None) -> None:
        self._expected = dict(expected or {})
        self._seconds: dict[Case, list[float]] = defaultdict(list)

    def add(self, case: Case, seconds: float) -> None:
        self._seconds[case].append(seconds)

    def mean(self, case: Case) -> float | None:
        known = self._seconds.get(case)
        return sum(known) / len(known) if known else self._expected.get(case)

    def left(self, cases: Iterable[Case]) -> float | None:
        """Return the seconds for trials of these cases; None when none of them can be estimated."""
        remaining = list(cases)
        means = [self.mean(case) for case in remaining]
        known = [mean for mean in means if mean is not None]
        if remaining and not known:
            return None
        # A case without any trial yet counts as the average of the others.
        average = sum(known) / len(known) if known else 0.0
        return sum(average if mean is None else mean for mean in means)


@dataclass
class _Pairs:
    """The values of a variant and of the baseline in the same group, by block."""

    base: dict[int, float] = field(default_factory=dict)
    other: dict[int, float] = field(default_factory=dict)


@dataclass
class InterimEstimates:
    """The provisional estimates of one run. Their intervals hold at all moments together (analysis/looks.py).

    Call `add` for each finished trial and `complete` when a case of a block is complete.
    """

    spec: Spec
    _open: dict[BlockCase, tuple[int, dict[tuple[str, int], float]]] = field(default_factory=dict)
    _pairs: dict[Case, dict[str, _Pairs]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_Pairs))
    )

    def add(self, task: TrialKey, trial: TrialResult | TrialRecord) -> None:
        """Add a finished trial. Only the latest attempt of a case in a block can count."""
        attempt, values = self._open.get(task.block_case, (task.attempt, {}))
        if attempt != task.attempt:
            values = {}
        value = trial.metrics.get(self._metric(task.workload))
        if trial.status == "ok" and value is not None:
            values[task.member] = value
        self._open[task.block_case] = (task.attempt, values)

    def complete(self, case: BlockCase) -> ev.Provisional | None:
        """Return the estimates of the case including this block; None while there are too few blocks."""
        _, values = self._open.pop(case, (0, {}))
        pairs = self._pairs[case.case]
        for (variant, group), value in values.items():
            base = values.get((self.spec.baseline, group))
            if variant != self.spec.baseline and base is not None:
                pairs[variant].base[case.block] = base
                pairs[variant].other[case.block] = value
        # With fewer blocks no interval holds at any moment, and an estimate without one misleads.
        enough = {v: pairs[v] for v in self.spec.variants if len(pairs[v].base) >= MIN_BLOCKS}
        return self._estimated(case, enough) if enough else None

    def _estimated(self, case: BlockCase, pairs: Mapping[str, _Pairs]) -> ev.Provisional | None:
        metric = metric_type(self._metric(case.workload))
        pairings = [Pairing(metric.effect, p.base, p.other, margin=0.0) for p in pairs.values()]
        effects = paired_effects(self.spec.baseline, pairings)
        look = Look(unfinished=True)
        adjusted = {
            variant: look.adjust(effect)
            for variant, effect in zip(pairs, effects, strict=True)
            if not isinstance(effect, NotARatioError)
        }
        estimates = tuple(
            ev.Estimate(variant, effect.n, effect.kind, effect.estimate, effect.ci95)
            for variant, effect in adjusted.items()
        )
        return ev.Provisional(case.case, metric.id, estimates) if estimates else None

    def _metric(self, workload: str) -> str:
        """Return the first primary metric that the workload can have."""
        workload_spec = self.spec.workloads[workload]
        possible = (m for m in self.spec.primary if workload_spec.may_give(m))
        return next(possible, self.spec.primary[0])


@dataclass
class Recorder:
    """Record the trials of one run and derive its progress.

    `schedule` may be replaced until the first trial of the experiment is recorded.
    """

    context: RunContext
    schedule: Schedule
    eta: EtaEstimator = field(init=False)
    counts: dict[str, int] = field(default_factory=lambda: {"ok": 0, "discarded": 0, "failed": 0})
    post_run: Sequence[Case] = ()  # the case of each trial that follows the blocks
    clock: Callable[[], float] = time.monotonic
    interim: InterimEstimates = field(init=False)
    _failures: dict[str, list[str]] = field(default_factory=dict)  # trials by cause
    _discards: dict[tuple[BlockCase, str], str] = field(default_factory=dict)  # the latest reasons
    _foreseen: dict[Case, int] = field(default_factory=dict)
    _warned_of_raw: bool = False
    _since: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.eta = EtaEstimator(
            {
                case: self.context.spec.expected_seconds(case.workload)
                for case in self.context.spec.cases
            }
        )
        self.interim = InterimEstimates(self.context.spec)

    def start_clock(self) -> None:
        """Start timing. A unit takes the time since this call or the previous unit, including relinks and checks."""
        self._since = self.clock()

    @property
    def done(self) -> int:
        """Return the number of finished trials, including those of earlier runs."""
        return sum(self.counts.values())

    @property
    def total(self) -> int:
        """Return the number of finished and remaining trials."""
        return self.done + len(self._likely_left())

    @property
    def failures(self) -> tuple[str, ...]:
        """Return a line for each cause of failure: the first trial that it hit, and how many more."""
        return tuple(
            f"{_first_of(places)}: {why}" if places else why
            for why, places in self._failures.items()
        )

    def fail(self, why: str) -> None:
        """Record a failure of the run that belongs to no trial."""
        self._failures.setdefault(why, [])

    def fail_given_up(self) -> None:
        """Record the discarded trials that are not redone as failures."""
        for case, variant in self.schedule.given_up():
            self._fail_trial(case, variant, self._discards[case, variant])

    def foresee(self, case: Case, trials: int) -> None:
        """Set how many trials are likely beyond those planned (negative: fewer), judging by the precision so far."""
        self._foreseen[case] = trials

    def _likely_left(self) -> list[Case]:
        cases = Counter(self.schedule.left())
        for case, trials in self._foreseen.items():
            cases[case] = max(cases[case] + trials, 0)
        return list(cases.elements())

    def recall(self) -> None:
        """Load the trials that earlier runs of this experiment stored."""
        for number, trial in enumerate(self.context.session.trials):
            self._recall_before(number)
            # The variants of a group shared the time.
            variants = trial.facts.get("variants") or [trial.variant]
            self._count(trial, trial.status, trial.reason, trial.seconds / len(variants))
            self.interim.add(trial, trial)
            if self.schedule.counts(trial.block_case):
                self.interim.complete(trial.block_case)
        self._recall_before(len(self.context.session.trials))

    def _recall_before(self, number: int) -> None:
        """Repeat what happened when `number` trials were stored, and before the next one."""
        facts = self.context.session.experiment.facts
        if number in facts.get(GRANTED, ()):
            self._forget_failures()
        if number in facts.get(CHANGED, ()):
            self.schedule.restart_partial_cases()

    def start(self, unit: Unit) -> None:
        """Announce a unit that is about to run."""
        task = unit.tasks[0]
        others = tuple(other.variant for other in unit.tasks[1:])
        place = {**_place(task), "others": others}
        self.context.journal.append("trial-started", **place)
        self.context.listener.on_event(
            ev.TrialStarted(number=self.done + 1, total=self.total, **place)
        )

    def keep(self, results: Sequence[TrialResult], deployed: Mapping[str, Deployed]) -> None:
        """Record the trials of a unit together: first in the store, then in the journal, shielded from signals."""
        took = self._took(results)
        with self.context.guard.shield():
            for result in results:  # a stored trial must not name files that a power cut takes
                sync_files(result.directory)
            self.context.store.add_trials(
                self.context.session.experiment.id,
                [self._record(result, deployed) for result in results],
            )
            for result in results:
                task = result.task
                self.context.journal.append(
                    "trial-finished",
                    block=task.block,
                    attempt=task.attempt,
                    variant=task.variant,
                    status=result.status,
                    reason=result.reason,
                )
                self._count(task, result.status, result.reason, took)
                self.interim.add(task, result)
            for result in results:
                self.keep_raw(result.directory)
        total = self.total
        for result in results:
            self._tell(result, total)
        discarded = [result for result in results if result.status == "discarded"]
        for result in discarded[:1]:
            self._discarded(result.task, result.reason)
        self._tell_estimates(results[0].task)
        self.tell_progress()

    def keep_raw(self, directory: Path) -> None:
        """Copy the raw files of a trial to the store.

        If a shared directory is unavailable, the files remain in the run's own directory, and the run continues.
        """
        try:
            self.context.store.keep_raw(
                self.context.session.experiment.id, self._raw_dir(directory), directory
            )
        except StoreError as error:
            if not self._warned_of_raw:
                self.context.listener.on_event(
                    ev.Warned(f"{error.message}; they stay in {directory.parent}")
                )
            self._warned_of_raw = True

    def _raw_dir(self, directory: Path) -> str:
        return str(directory.relative_to(self.context.session.directory.parent))

    def _record(self, result: TrialResult, deployed: Mapping[str, Deployed]) -> TrialRecord:
        task = result.task
        return TrialRecord(
            **vars(task),
            build_id=deployed[task.variant].build_id if task.variant in deployed else "",
            status=result.status,
            reason=result.reason,
            started_at=result.started_at,
            finished_at=result.finished_at,
            metrics=dict(result.metrics),
            facts=dict(result.facts),
            raw_dir=self._raw_dir(result.directory),
        )

    def _took(self, results: Sequence[TrialResult]) -> float:
        """Return the seconds that each trial of the unit took."""
        if self._since is None:
            return results[0].seconds / len(results)
        now = self.clock()
        took, self._since = now - self._since, now
        return took / len(results)

    def _tell_estimates(self, task: TrialKey) -> None:
        if self.schedule.counts(task.block_case) and (
            estimates := self.interim.complete(task.block_case)
        ):
            self.context.listener.on_event(estimates)

    def _tell(self, result: TrialResult, total: int) -> None:
        task = result.task
        self.context.listener.on_event(
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

    def _discarded(self, task: TrialKey, reason: str) -> None:
        redo = self.schedule.will_redo(task.block_case)
        self.context.journal.append(
            "discarded", case=task.block_case, variant=task.variant, reason=reason, redo=redo
        )
        self.context.listener.on_event(
            ev.BlockDiscarded(
                block=task.block,
                workload=task.workload,
                bucket=task.bucket,
                variant=task.variant,
                reason=reason,
                redo=redo,
                redos=self.schedule.redos,
                max_discarded=self.context.spec.limits.max_discarded,
            )
        )

    def _count(self, task: TrialKey, status: TrialStatus, reason: str, seconds: float) -> None:
        self.schedule.record(task, status)
        self.counts[status] += 1
        if status == "ok":
            self.eta.add(task.case, seconds)
        elif status == "failed":
            self._fail_trial(task.block_case, task.variant, reason)
        else:
            self._discards[task.block_case, task.variant] = reason

    def _fail_trial(self, case: BlockCase, variant: str, reason: str) -> None:
        place = f"block {case.block}, {trial_place(variant, case.bucket, case.workload)}"
        self._failures.setdefault(reason, []).append(place)

    def _forget_failures(self) -> None:
        """Forget failures of earlier runs: the cases are redone, or reported as incomplete at the end."""
        self.schedule.renew_budget()
        self._failures.clear()

    def tell_progress(self) -> None:
        """Report the progress and the time left to the listener, and in the journal for other processes."""
        left = self._likely_left()
        seconds = self.eta.left([*left, *self.post_run])
        eta = ev.Eta(seconds, self.done, self.done + len(left))
        self.context.journal.append(PROGRESS, **dataclasses.asdict(eta))
        self.context.listener.on_event(eta)


def _first_of(places: Sequence[str]) -> str:
    more = len(places) - 1
    return places[0] + (f" (and {more} more)" if more else "")


def _place(task: TrialKey) -> dict[str, Any]:
    """Return the keys that identify a trial in the journal and in events."""
    names = ("block", "attempt", "workload", "bucket", "variant")
    return {name: getattr(task, name) for name in names}
