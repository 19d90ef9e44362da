"""Run one unit of trials: fresh engines on empty data, the workload's scenario, a clean stop, and the result.

A unit is one trial, or the trials of a group whose engines are alive at the same time. The workload of a stand-alone
program (a micro-benchmark) starts no engine. `TrialRunner.run` is the entry point; what it measures is in `run` of the
workload's module (perfrunner/workloads/).

When `run` returns or raises, all files of a trial are in its directory on this machine and the hosts are clean.
A crash, a failed client or a time-out makes a trial *failed* and the other trials of its group *discarded*. A rule of
outcome.py makes a trial *discarded*. All of them keep their logs. A lost connection, a full local disk and Ctrl-C
are raised.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import HostError, TrialError
from perfrunner.experiment.outdir import disk_fails
from perfrunner.experiment.trial.bench import Bench
from perfrunner.experiment.trial.cluster import Sampled
from perfrunner.experiment.trial.context import SAMPLE_INTERVAL_MS, TrialContext
from perfrunner.experiment.trial.group import GroupBench
from perfrunner.experiment.trial.outcome import (
    PauseWatch,
    attribute_failure,
    attributed_to,
    group_reasons,
    judge,
    read_pressure,
    watch_pauses,
)
from perfrunner.experiment.trial.placement import (
    Deployed,
    TrialResult,
    fresh_directory,
    remote_name,
    trial_name,
)
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.experiment.trial.tool import ToolBench, ToolGroupBench
from perfrunner.hosts.process import LinkLost
from perfrunner.spec.workloads import ToolWorkload
from perfrunner.workloads import SERVER_SCENARIOS, TOOL_SCENARIOS
from perfrunner.workloads.bench import Measured, Share
from perfrunner.workloads.metrics import client_facts
from perfrunner.workloads.sdk import check_verified, sdk_program

SAMPLE = "sample"  # of documents for `engine.verify: sdk`; a file on a load client


@dataclass
class TrialRunner:
    """A runner for the trials of one experiment, one unit at a time."""

    setup: TrialSetup
    trials_dir: Path
    host_changes: Callable[[], list[str]]  # host facts that no longer hold

    def run(
        self,
        tasks: Sequence[TrialKey],
        deployed: Mapping[str, Deployed],
        *,
        sample_interval_ms: Sequence[int] | None = None,
        profiled: Sequence[bool] | None = None,
    ) -> list[TrialResult]:
        """Run the trials of a unit and return their results in the order of their slots.

        deployed: the deployed builds, by variant.
        sample_interval_ms: the sampling interval of each trial; default: SAMPLE_INTERVAL_MS.
        profiled: record a CPU profile of each trial with perf; default: if the workload has `profile: perf`. The
        trial keeps its profile, described by its fact `profile`.
        """
        started_at = datetime.now(timezone.utc)
        trials = self._open(tasks, deployed, sample_interval_ms, profiled)
        outcomes = self._outcomes(trials)
        finished_at = datetime.now(timezone.utc)
        return [
            TrialResult(
                task=trial.task,
                status=status,
                reason=reason,
                started_at=started_at,
                finished_at=finished_at,
                directory=trial.directory,
                metrics={} if measurement is None else measurement.metrics,
                facts={**trial.facts, **_facts_of(measurement)},
            )
            for trial, (status, reason, measurement) in zip(trials, outcomes, strict=True)
        ]

    def _open(
        self,
        tasks: Sequence[TrialKey],
        deployed: Mapping[str, Deployed],
        sample_interval_ms: Sequence[int] | None,
        profiled: Sequence[bool] | None,
    ) -> list[TrialContext]:
        """Return the contexts of the trials, with their local directories and the script that they share.

        Their time begins to run.
        """
        spec, run_id, first = self.setup.spec, self.setup.run_id, tasks[0]
        names = ", ".join(task.variant for task in tasks)
        recorder = ScriptRecorder(
            f"{run_id}: block {first.block}, {first.workload}, {first.bucket}, {names}"
        )
        deadline = time.monotonic() + spec.limits.trial_timeout * len(tasks)
        intervals = sample_interval_ms or [SAMPLE_INTERVAL_MS] * len(tasks)
        requested = spec.workloads[first.workload].profile is not None
        return [
            TrialContext(
                task=task,
                deployed=deployed[task.variant],
                directory=fresh_directory(self.trials_dir / trial_name(task)),
                remote_name=remote_name(task, spec.variants),
                recorder=recorder.variant(slot if len(tasks) > 1 else 0),
                run_id=run_id,
                deadline=deadline,
                shield=self.setup.shield,
                sample_interval_ms=interval,
                profiled=recorded,
            )
            for slot, (task, interval, recorded) in enumerate(
                zip(tasks, intervals, profiled or [requested] * len(tasks), strict=True), start=1
            )
        ]

    def _outcomes(
        self, trials: Sequence[TrialContext]
    ) -> Sequence[tuple[TrialStatus, str, Measured | None]]:
        """Measure the trials of a unit; return the status of each, the reason, and what was measured."""
        spec = self.setup.spec
        pauses = PauseWatch()
        try:
            before = read_pressure(self.setup.hosts)
            with watch_pauses(pauses):
                measured = self._measure(trials)
            pressure = read_pressure(self.setup.hosts).share_since(before)
            for trial in trials:
                trial.facts["cpu_pressure"] = pressure
            common = [*group_reasons(measured, spec.limits), *self.host_changes()]
            if spec.cluster.transport == "local":
                common += pauses.reasons
            return [judge(measurement, spec.limits, common) for measurement in measured]
        except (ValueError, ArithmeticError) as error:
            # A tool reported impossible figures; they are in the files of the trial.
            text = f"cannot evaluate the figures of the trial: {error!r}"
            return [("failed", text, None) for _ in trials]
        except (TrialError, HostError) as error:
            if isinstance(error, LinkLost) or disk_fails(error):
                raise
            if pauses.reasons:  # every time-out may have passed in the meantime
                reason = f"{'; '.join(pauses.reasons)}; then: {error}"
                return [("discarded", reason, None) for _ in trials]
            names = [trial.task.variant for trial in trials]
            return [(status, reason, None) for status, reason in attribute_failure(error, names)]

    def _measure(self, trials: Sequence[TrialContext]) -> list[Measured]:
        workload = self.setup.spec.workloads[trials[0].task.workload]
        if isinstance(workload, ToolWorkload):
            with self.setup.tools(trials) as tools:
                measured = TOOL_SCENARIOS[workload.type](tools, workload)
                _keep_profiles(tools)
                return measured
        with self.setup.servers(trials) as group:
            measured = SERVER_SCENARIOS[workload.type](group, workload)
            _keep_profiles(group)
            for bench in group.variants:
                bench.keep_stats()
            if how := self.setup.spec.engine.verify:
                group.phase("verify replicas")
                for index, bench in enumerate(group.variants):
                    with attributed_to(index):
                        bench.trial.facts["verified"] = verify_copies(bench, how)
            group.phase("stop")
            for index, bench in enumerate(group.variants):
                for engine in bench.engines:
                    with attributed_to(index):
                        engine.stop(bench.trial.deadline)
            return measured


def _facts_of(measurement: Measured | None) -> dict[str, object]:
    return {} if measurement is None else {**measurement.facts, **client_facts(measurement)}


def _keep_profiles(group: GroupBench | ToolGroupBench) -> None:
    """Read the profiles of the variants, after the measurement."""
    benches: Sequence[Bench | ToolBench] = group.variants
    if not any(bench.trial.profiled for bench in benches):
        return
    group.phase("read profiles")
    for index, bench in enumerate(benches):
        with attributed_to(index):
            if bench.profiler is not None:
                bench.trial.facts["profile"] = bench.profiler.keep()


def verify_copies(bench: Bench, how: Literal["replicas", "sdk"]) -> dict[str, int]:
    """Implement `engine.verify`: compare all copies by DCP, and a sample of them by the Couchbase SDK.

    Return the numbers of documents and copies. Raises TrialError, with the first differences, if copies differ.
    """
    checked = bench.nodes.verify()
    facts = {"documents": checked.documents, "copies": checked.copies}
    if how == "sdk":
        facts["by_sdk"] = _read_by_sdk(bench, checked.sample)
    return facts


def _read_by_sdk(bench: Bench, sample: Sequence[Sampled]) -> int:
    """Read the sample from every node that has a copy; each load client reads its share. Return the number read."""
    if not sample:
        raise TrialError(
            "kvctl digest reported no document for the SDK to read",
            hint="the bucket is empty, or the tools are older than `verify: sdk`",
        )
    count = len(bench.placements)
    for index, placement in enumerate(bench.placements):
        text = json.dumps([list(astuple(document)) for document in sample[index::count]])
        path = bench.kept_for(Share(index, count), SAMPLE)
        placement.host.put_bytes(text.encode(), path)
        bench.trial.recorder.write_file(placement.host.name, path, text)

    def arguments(share: Share) -> list[str]:
        return ["copies", f"--sample={bench.kept_for(share, SAMPLE)}"]

    texts = bench.load_program(sdk_program(), arguments, output="verify-copies", processes=1)
    return check_verified(texts, len(sample), "read by the SDK", "as DCP shows them")
