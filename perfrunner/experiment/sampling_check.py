"""Run the sampling check, which follows the last block.

It is stored only when it is complete: a run that is killed in between, or loses a host, repeats it. The number of its
trials is known from the start, so that the estimate of the time left includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from perfrunner.domain import Case, TrialKey
from perfrunner.experiment import events as ev
from perfrunner.experiment.plan import Plan, cases_to_check
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.trial.context import SAMPLE_INTERVAL_MS
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.spec.model import Spec

SAMPLING_CHECK_FACT = "sampling_check"
BLOCK = 0
BARE, SAMPLED = 1, 2  # the attempt number distinguishes the two trials of a case
NO_SAMPLING_MS = 3_600_000  # the longest interval of kvctl: a single sample, as the phase begins
COMPARED = ("ops_per_s", "server_cpu_us_per_op")


def check_sampling(runner: TrialRunner, plan: Plan, deployed: Deployed) -> Iterator[dict[str, Any]]:
    """Yield one record per case that compares the baseline with and without samplers and the profiler.

    In a group both run at the same time, otherwise one after the other. The order alternates between cases, so that
    neither the slot nor drift of the host is mistaken for the cost of sampling.
    """
    spec = plan.spec
    for position, (workload, bucket) in enumerate(cases_to_check(spec), start=1):
        order = (True, False) if position % 2 else (False, True)
        grouping = plan.groupings[workload]
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
        recorded = spec.workloads[workload].profile is not None
        profiled = [sampled and recorded for sampled in order]
        variants = {spec.baseline: deployed}
        done: Sequence[TrialResult]
        if group:
            done = runner.run(tasks, variants, sample_interval_ms=intervals, profiled=profiled)
        else:
            done = [
                runner.run([task], variants, sample_interval_ms=[interval], profiled=[by_perf])[0]
                for task, interval, by_perf in zip(tasks, intervals, profiled, strict=True)
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


def sampling_trials(spec: Spec, facts: Mapping[str, Any]) -> list[Case]:
    """Return the case of each trial of the sampling check that is still to run."""
    return [] if SAMPLING_CHECK_FACT in facts else cases_to_check(spec) * ev.TRIALS_PER_CHECK


def run_sampling_check(
    recorder: Recorder,
    plan: Plan,
    facts: dict[str, Any],
    deployed: Mapping[str, Deployed],
    runner: TrialRunner,
    check_locks: Callable[[], None],
) -> None:
    """Run the check on the baseline, if it is not stored yet, and store it.

    facts: the facts of the experiment; the records are added to them.
    check_locks: raises LinkLost if the lock on a host was lost.
    """
    context = recorder.context
    spec = context.spec
    recorder.post_run = left = sampling_trials(spec, facts)
    if not left:
        return
    context.listener.on_event(ev.SamplingCheck(spec.baseline, tuple(cases_to_check(spec))))
    recorder.tell_progress()
    records = []
    for record in check_sampling(runner, plan, deployed[spec.baseline]):
        check_locks()
        records.append(record)
        case = Case(record["workload"], record["bucket"])
        for _ in range(ev.TRIALS_PER_CHECK):
            left.remove(case)
        recorder.tell_progress()
    facts[SAMPLING_CHECK_FACT] = records
    context.store.set_facts(context.session.experiment.id, facts)
    context.journal.append("sampling-checked")
