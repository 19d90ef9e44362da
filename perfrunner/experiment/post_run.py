"""Run what follows the last block: the sampling check, then the CPU profiles.

Each of the two is stored only when it is complete: a run that is killed in between, or loses a host, repeats it. The
number of these trials is known from the start, so that the estimate of the time left includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.domain import Case, TrialKey
from perfrunner.experiment import events as ev
from perfrunner.experiment.plan import (
    Grouping,
    cases_to_check,
    cases_to_profile,
    groups,
    profiled_cases,
)
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.session import RunContext
from perfrunner.experiment.trial.bench import SAMPLE_INTERVAL_MS
from perfrunner.experiment.trial.placement import Deployed, Placement, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.measure.cpu_profile import check_perf
from perfrunner.results.profiles import FACT as PROFILES
from perfrunner.results.profiles import failed_profiles
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload

FACT = "sampling_check"
BLOCK = 0
BARE, SAMPLED = 1, 2  # the attempt number distinguishes the two trials of a case
NO_SAMPLING_MS = 3_600_000  # the longest interval of kvctl: a single sample, as the phase begins
COMPARED = ("ops_per_s", "server_cpu_us_per_op")


def check_sampling(
    runner: TrialRunner, spec: Spec, deployed: Deployed, laid_out: Mapping[str, Grouping]
) -> Iterator[dict[str, Any]]:
    """Yield one record per case that compares the baseline with and without samplers and the profiler.

    In a group both run at the same time, otherwise one after the other. The order alternates between cases, so that
    neither the slot nor drift of the host is mistaken for the cost of sampling.
    """
    for position, (workload, bucket) in enumerate(cases_to_check(spec), start=1):
        order = (True, False) if position % 2 else (False, True)
        grouping = laid_out[workload]
        group = 0 if grouping.alone else 1
        tasks = [
            TrialKey(
                BLOCK,
                SAMPLED if sampled else BARE,
                position,
                workload,
                bucket,
                spec.baseline,
                group=group,
            )
            for sampled in order
        ]
        intervals = [SAMPLE_INTERVAL_MS if sampled else NO_SAMPLING_MS for sampled in order]
        every_block = spec.workloads[workload].profile == "blocks"
        profiled = [sampled and every_block for sampled in order]
        variants = {spec.baseline: deployed}
        done: Sequence[TrialResult]
        if group:
            done = runner.run(tasks, variants, sample_interval_ms=intervals, profiled=profiled)
        else:
            done = [
                runner.run([task], variants, sample_interval_ms=[interval], profiled=[recorded])[0]
                for task, interval, recorded in zip(tasks, intervals, profiled, strict=True)
            ]
        results = dict(zip(order, done, strict=True))
        not_ok = [result for result in results.values() if result.status != "ok"]
        yield {
            "workload": workload,
            "bucket": bucket,
            "interleaved": bool(group),
            "variant": spec.baseline,
            "status": not_ok[0].status if not_ok else "ok",
            "reason": not_ok[0].reason if not_ok else "",
            "sampled": _compared(results[True].metrics),
            "bare": _compared(results[False].metrics),
        }


def _compared(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in COMPARED if name in metrics}


ATTEMPT = 3  # follows those of the sampling check


def check_profiling(spec: Spec, engine_nodes: list[Placement]) -> None:
    """Raise HostError, with a remedy, if a workload requests a profile and perf cannot record on its host."""
    cases = profiled_cases(spec)
    if not cases:
        return
    on_engines = [w for w, _ in cases if not isinstance(spec.workloads[w], ToolWorkload)]
    workload = (on_engines or [w for w, _ in cases])[0]
    for placement in engine_nodes if on_engines else engine_nodes[:1]:
        check_perf(placement.host, placement.run_dir, workload)


def take_profiles(
    runner: TrialRunner,
    spec: Spec,
    deployed: Mapping[str, Deployed],
    laid_out: Mapping[str, Grouping],
    store: Path,
) -> Iterator[dict[str, Any]]:
    """Yield a record for each variant and case (see results/profiles.VariantProfile).

    `store` is the directory of the store.
    """
    for position, (workload, bucket) in enumerate(cases_to_profile(spec), start=1):
        for group, variants in _groups(spec, deployed, laid_out[workload]):
            tasks = [
                TrialKey(BLOCK, ATTEMPT, position, workload, bucket, variant, group=group)
                for variant in variants
            ]
            for result in runner.run(tasks, deployed, profiled=[True] * len(tasks)):
                yield _record(result, store)


def _groups(
    spec: Spec, deployed: Mapping[str, Deployed], grouping: Grouping
) -> list[tuple[int, tuple[str, ...]]]:
    built = [variant for variant in spec.variants if variant in deployed]
    if grouping.alone:
        return [(0, (variant,)) for variant in built]
    return (
        list(enumerate(groups(built, spec.baseline, grouping.group_size), start=1)) if built else []
    )


def _record(result: TrialResult, store: Path) -> dict[str, Any]:
    task = result.task
    taken = result.facts.get("profile")
    return {
        "workload": task.workload,
        "bucket": task.bucket,
        "variant": task.variant,
        "group": task.group,
        "status": result.status,
        "reason": result.reason,
        "directory": str(result.directory.relative_to(store)),
        **(taken if isinstance(taken, dict) else {}),
    }


CHECKED = 2  # trials per case in the sampling check: with and without samplers


def post_run_trials(spec: Spec, facts: Mapping[str, Any], variants: int) -> list[Case]:
    """Return the case of each trial that is still to run after the blocks.

    `variants` is the number of variants that could be built.
    """
    checks = [] if FACT in facts else cases_to_check(spec) * CHECKED
    profiles = [] if PROFILES in facts else cases_to_profile(spec) * variants
    return [*checks, *profiles]


@dataclass
class PostRun:
    """The sampling check and the CPU profiles of one run.

    `facts` are the facts of the experiment, shared with the runner.
    """

    context: RunContext
    recorder: Recorder
    groupings: Mapping[str, Grouping]
    facts: dict[str, Any]
    deployed: Mapping[str, Deployed]
    _left: list[Case] = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        # The sampling check runs on the baseline only.
        checked = self.facts if self._checks else {FACT: None, **self.facts}
        self._left = post_run_trials(self.context.spec, checked, len(self.deployed))
        self.recorder.post_run = self._left

    @property
    def _checks(self) -> bool:
        return self.context.spec.baseline in self.deployed

    def run(self, runner: TrialRunner, *, held: Callable[[], None]) -> None:
        """Run what is not stored yet. `held` raises LinkLost if the lock on a host was lost."""
        self._begin()
        if self._checks and FACT not in self.facts:
            self._check_sampling(runner, held)
        if PROFILES not in self.facts:
            self._take_profiles(runner, held)

    def _check_sampling(self, runner: TrialRunner, held: Callable[[], None]) -> None:
        cases = cases_to_check(self.context.spec)
        if not cases:
            return
        self.context.listener.on_event(ev.SamplingCheck(self.context.spec.baseline, tuple(cases)))
        self.recorder.tell_progress()
        records = []
        baseline = self.deployed[self.context.spec.baseline]
        for record in check_sampling(runner, self.context.spec, baseline, self.groupings):
            held()
            records.append(record)
            self._done(record, CHECKED)
        self.facts[FACT] = records
        self.context.store.set_facts(self.context.session.experiment.id, self.facts)
        self.context.journal.append("sampling-checked")

    def _take_profiles(self, runner: TrialRunner, held: Callable[[], None]) -> None:
        cases = cases_to_profile(self.context.spec)
        if not cases:
            return
        self.context.listener.on_event(
            ev.Profiling(tuple(self.context.spec.variants), tuple(cases))
        )
        self.recorder.tell_progress()
        store = self.context.session.directory.parent
        records = []
        for record in take_profiles(
            runner, self.context.spec, self.deployed, self.groupings, store
        ):
            held()
            records.append(record)
            self._done(record, 1)
        for text in failed_profiles(records):
            self.context.listener.on_event(ev.Warned(text))
        for record in records:
            self.recorder.keep_raw(store / record["directory"])
        self.facts[PROFILES] = records
        self.context.store.set_facts(self.context.session.experiment.id, self.facts)
        self.context.journal.append("profiled")

    def _done(self, record: Mapping[str, Any], trials: int) -> None:
        case = Case(record["workload"], record["bucket"])
        for _ in range(min(trials, self._left.count(case))):  # each group contains the baseline
            self._left.remove(case)
        self.recorder.tell_progress()
