"""Run one unit of trials: fresh engines on empty data, the workload's scenario, a clean stop, and the result.

A unit is one trial, or the trials of a group whose engines are alive at the same time. The workload of a stand-alone
program (a micro-benchmark) starts no engine. `TrialRunner.run` is the entry point.

When `run` returns or raises, all files of a trial are in its directory on this machine and the hosts are clean.
A crash, a failed client or a time-out makes a trial *failed* and the other trials of its group *discarded*. A rule of
validity.py makes a trial *discarded*. All of them keep their logs. A lost connection, a full local disk and Ctrl-C
are raised.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import HostError, TrialError
from perfrunner.experiment.outdir import disk_is_full
from perfrunner.experiment.plan.order import padding_size, round_seed, workload_seed
from perfrunner.experiment.trial.bench import SAMPLE_INTERVAL_MS, Bench
from perfrunner.experiment.trial.copies import verify_copies
from perfrunner.experiment.trial.failures import (
    VariantError,
    attribute_failure,
    attribute_to_dead_engine,
    attributed_to,
    teardown,
    try_each,
)
from perfrunner.experiment.trial.group import GroupBench
from perfrunner.experiment.trial.pinning import CpuSets, choose, read_topology
from perfrunner.experiment.trial.placement import (
    ClientPlacement,
    Deployed,
    Placement,
    TrialResult,
    client_python,
    fresh_directory,
    remote_name,
    trial_name,
)
from perfrunner.experiment.trial.profiling import Profiler
from perfrunner.experiment.trial.reproduce import PADDING_NAME, ScriptRecorder, VariantRecorder
from perfrunner.experiment.trial.server import ServerError, ServerProcess
from perfrunner.experiment.trial.start import ServerStart, choose_ports, start_server
from perfrunner.experiment.trial.tool import ToolBench, ToolGroupBench
from perfrunner.experiment.trial.validity import group_reasons, judge, read_pressure
from perfrunner.hosts.process import whole_environment
from perfrunner.hosts.transport import LinkLost
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload
from perfrunner.workloads.bench import Measured
from perfrunner.workloads.metrics import client_facts
from perfrunner.workloads.registry import scenario_for, tool_scenario_for

START_TIMEOUT_S = 60.0
ABANDON_GRACE_S = 2.0  # for processes of a trial that is given up


@dataclass
class _Variant:
    """A trial in progress, with the facts collected so far."""

    task: TrialKey
    deployed: Deployed
    directory: Path
    sample_interval_ms: int
    name: str  # of the directories on the hosts
    profiled: bool
    facts: dict[str, object] = field(default_factory=dict)


@dataclass
class TrialRunner:
    """A runner for the trials of one experiment, one unit at a time."""

    spec: Spec
    run_id: str
    seed: int
    engine_nodes: Sequence[Placement]
    load_clients: Sequence[Placement]
    trials_dir: Path
    shield: Callable[[], AbstractContextManager[None]]
    on_phase: Callable[[str, float | None], None]
    host_changes: Callable[[], list[str]]  # host facts that no longer hold
    hurry: Callable[[], bool]  # after a second Ctrl-C: stop at once and fetch no files
    _cpus: CpuSets | None = field(default=None, init=False)

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
        profiled: record a CPU profile of each trial with perf; default: if the workload has `profile: blocks`. The
        trial keeps its profile, described by its fact `profile`.
        """
        started_at = datetime.now(timezone.utc)
        intervals = sample_interval_ms or [SAMPLE_INTERVAL_MS] * len(tasks)
        every_block = self.spec.workloads[tasks[0].workload].profile == "blocks"
        variants = [
            _Variant(
                task,
                deployed[task.variant],
                fresh_directory(self._directory(task)),
                interval,
                remote_name(task, self.spec.variants),
                recorded,
            )
            for task, interval, recorded in zip(
                tasks, intervals, profiled or [every_block] * len(tasks), strict=True
            )
        ]
        hosts = list(
            {placement.host.name: placement.host for placement in self._placements}.values()
        )
        ended: list[tuple[TrialStatus, str, Measured | None]]
        try:
            before = read_pressure(hosts)
            measured = self._measure(variants)
            pressure = read_pressure(hosts).share_since(before)
            for variant in variants:
                variant.facts["cpu_pressure"] = pressure
            common = [*group_reasons(measured, self.spec.limits), *self.host_changes()]
            ended = [judge(measurement, self.spec.limits, common) for measurement in measured]
        except (ValueError, ArithmeticError) as error:
            # A tool reported impossible figures; they are in the files of the trial.
            text = f"cannot evaluate the figures of the trial: {error!r}"
            ended = [("failed", text, None) for _ in variants]
        except (TrialError, HostError) as error:
            if isinstance(error, LinkLost) or disk_is_full(error):
                raise
            ended = [
                (status, reason, None)
                for status, reason in attribute_failure(
                    error, [variant.task.variant for variant in variants]
                )
            ]
        finished_at = datetime.now(timezone.utc)
        return [
            TrialResult(
                task=variant.task,
                status=status,
                reason=reason,
                started_at=started_at,
                finished_at=finished_at,
                directory=variant.directory,
                metrics={} if measurement is None else measurement.metrics,
                facts={
                    **variant.facts,
                    **({} if measurement is None else _facts_of(measurement)),
                },
            )
            for variant, (status, reason, measurement) in zip(variants, ended, strict=True)
        ]

    @property
    def _placements(self) -> Sequence[Placement]:
        return (*self.engine_nodes, *self.load_clients)

    def _measure(self, variants: Sequence[_Variant]) -> list[Measured]:
        workload = self.spec.workloads[variants[0].task.workload]
        if variants[0].profiled and workload.profile != "blocks":
            workload = workload.under_profiler()
        if isinstance(workload, ToolWorkload):
            with self._tool_group(variants) as tools:
                measured = tool_scenario_for(workload.type)(tools, workload)
                _keep_profiles(tools, variants)
                return measured
        with self._group(variants) as bench:
            measured = scenario_for(workload.type)(bench, workload)
            _keep_profiles(bench, variants)
            for variant in bench.variants:
                variant.keep_stats()
            if how := self.spec.engine.verify:
                bench.phase("verify replicas")
                for place, (variant, of) in enumerate(zip(bench.variants, variants, strict=True)):
                    with attributed_to(place):
                        of.facts["verified"] = verify_copies(variant, how)
            bench.phase("stop")
            for place, variant in enumerate(bench.variants):
                for engine in variant.engines:
                    with attributed_to(place):
                        engine.stop(variant.deadline)
            return measured

    # -- stand-alone programs

    @contextlib.contextmanager
    def _tool_group(self, variants: Sequence[_Variant]) -> Iterator[ToolGroupBench]:
        """Provide empty directories on the first engine node; tear down as after trials with engines."""
        placement = self.engine_nodes[0]
        recorder = self._recorder(variants, [placement])
        deadline = time.monotonic() + self.spec.limits.trial_timeout * len(variants)
        names = [variant.task.variant for variant in variants]
        benches = [
            ToolBench(
                host=placement.host,
                artifact=variant.deployed.paths[placement.host.name],
                tools=variant.deployed.tools[placement.host.name],
                remote=f"{placement.run_dir}/{variant.name}",
                directory=variant.directory,
                variant=self.spec.variants[variant.task.variant],
                env=self._environment(variant),
                recorder=recorder.variant(slot if len(variants) > 1 else 0),
                run_id=self.run_id,
                deadline=deadline,
                shield=self.shield,
                profiler=self._profiler(
                    variant, recorder.variant(slot if len(variants) > 1 else 0)
                ),
            )
            for slot, variant in enumerate(variants, start=1)
        ]
        group = ToolGroupBench(
            variants=benches,
            interleaved=variants[0].task.group > 0,
            baseline=self._baseline(names),
            recorder=recorder,
            cpus=self.spec.engine.cpus,
            round_seed=round_seed(self.seed, variants[0].task),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            try_each(partial(bench.abandon, grace) for bench in benches)

        with self._torn_down(recorder, variants, [placement], abandon):
            group.phase("start")
            self._clear(variants, [placement])
            for slot, variant in enumerate(variants, start=1):
                self._note(variant, group, names, slot)
            yield group

    # -- engines

    @contextlib.contextmanager
    def _group(self, variants: Sequence[_Variant]) -> Iterator[GroupBench]:
        """Provide engines that are ready to serve; then stop them, fetch the logs and clean the hosts."""
        placements = list({s.host.name: s for s in self._placements}.values())
        recorder = self._recorder(variants, placements)
        deadline = time.monotonic() + self.spec.limits.trial_timeout * len(variants)
        first = variants[0].task
        names = [variant.task.variant for variant in variants]
        cpus = self._cpu_sets(variants[0].deployed)
        benches: list[Bench] = []
        group = GroupBench(
            variants=benches,
            interleaved=first.group > 0,
            baseline=self._baseline(names),
            recorder=recorder,
            directory=variants[0].directory,
            round_seed=round_seed(self.seed, first),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            engines = [engine for bench in benches for engine in bench.engines]
            everything: list[Bench | ServerProcess] = [*benches, *engines]
            try_each(partial(item.abandon, grace) for item in everything)

        with self._torn_down(recorder, variants, placements, abandon):
            group.phase("start")
            self._clear(variants, placements)
            ports = choose_ports(
                self.spec, [variant.deployed for variant in variants], self.engine_nodes[0]
            )
            for slot, variant in enumerate(variants, start=1):
                numbered = slot if len(variants) > 1 else 0
                bench = self._bench(variant, recorder, numbered, cpus, deadline)
                benches.append(bench)
                env = self._environment(variant)
                engines: list[ServerProcess] = []
                bench.engines = engines
                start = ServerStart(self.spec, variant.task, variant.deployed, env, cpus.engine)
                for placement in self.engine_nodes:
                    setup = start.setup(placement, variant.name, ports[slot - 1])
                    with self.shield():
                        engines.append(
                            start_server(placement.host, setup, bench.recorder, self.run_id)
                        )
                self._note(variant, group, names, slot)
                variant.facts["seed"] = bench.seed
                variant.facts["cpus"] = {"engine": cpus.engine, "client": cpus.client}
            for place, (bench, variant) in enumerate(zip(benches, variants, strict=True)):
                for engine in bench.engines:
                    with attributed_to(place):
                        engine.wait_ready(min(deadline, time.monotonic() + START_TIMEOUT_S))
                variant.facts["port"] = bench.engines[0].port
                with attributed_to(place):
                    bench.form()
            try:
                yield group
            except ServerError as error:
                place = next(
                    place
                    for place, bench in enumerate(benches)
                    if any(engine is error.server for engine in bench.engines)
                )
                raise VariantError(place, str(error)) from error
            except TrialError as error:
                raise attribute_to_dead_engine(error, group.dead) from error

    def _bench(
        self, variant: _Variant, recorder: ScriptRecorder, slot: int, cpus: CpuSets, deadline: float
    ) -> Bench:
        return Bench(
            engines=[],
            placements=[
                ClientPlacement(
                    placement.host,
                    variant.deployed.tools[placement.host.name],
                    f"{placement.run_dir}/{variant.name}",
                    placement.credentials,
                    cpus.client,
                    client_python(self.spec, placement.host.name),
                )
                for placement in self.load_clients
            ],
            directory=variant.directory,
            recorder=recorder.variant(slot),
            run_id=self.run_id,
            seed=workload_seed(self.seed, variant.task),
            vbuckets=self.spec.engine.vbuckets,
            replicas=self.spec.cluster.replicas,
            persistent=variant.task.bucket == "persistent",
            deadline=deadline,
            shield=self.shield,
            sampler_cpus=cpus.client if self._together else "",
            sample_interval_ms=variant.sample_interval_ms,
            profiler=self._profiler(variant, recorder.variant(slot)),
        )

    def _profiler(self, variant: _Variant, recorder: VariantRecorder) -> Profiler | None:
        return (
            Profiler(variant.directory, recorder, self.run_id, self.shield)
            if variant.profiled
            else None
        )

    def _note(
        self, variant: _Variant, group: GroupBench | ToolGroupBench, variants: list[str], slot: int
    ) -> None:
        """Record in the facts of the trial how it is scheduled."""
        variant.facts["schedule"] = "interleaved" if group.interleaved else "sequential"
        if group.interleaved:
            variant.facts["slot"] = slot
            variant.facts["variants"] = variants
            variant.facts["baseline"] = variants[group.baseline]

    def _baseline(self, variants: list[str]) -> int:
        """Return the index of the baseline, or 0 if the baseline itself cannot run."""
        return variants.index(self.spec.baseline) if self.spec.baseline in variants else 0

    @property
    def _together(self) -> bool:
        """Return whether clients and engine share a host."""
        return {s.host.name for s in self.engine_nodes} == {s.host.name for s in self.load_clients}

    def _cpu_sets(self, deployed: Deployed) -> CpuSets:
        """Return the CPU sets; they are chosen once, so that every variant and trial uses the same."""
        if self._cpus is None:
            node = self.engine_nodes[0].host
            topology = read_topology(node, deployed.tools[node.name])
            self._cpus = choose(
                self.spec.engine.cpus, self.spec.client.cpus, topology, together=self._together
            )
        return self._cpus

    # -- shared by all trials

    def _directory(self, task: TrialKey) -> Path:
        return self.trials_dir / trial_name(task)

    def _environment(self, variant: _Variant) -> dict[str, str]:
        """Return the environment of the variant plus a padding of random size, drawn for this trial."""
        padding = padding_size(self.seed, variant.task)
        variant.facts["environment_padding"] = padding
        variant.facts["environment"] = whole_environment(variant.deployed.env)
        if variant.deployed.layout_seed is not None:
            variant.facts["relinked"] = variant.deployed.layout_seed
        return {**variant.deployed.env, PADDING_NAME: "0" * padding}

    def _clear(self, variants: Sequence[_Variant], placements: Sequence[Placement]) -> None:
        """Create empty directories on every host; remove what a killed run left there."""
        for variant in variants:
            for placement in placements:
                placement.host.remove_tree(f"{placement.run_dir}/{variant.name}")
                placement.host.makedirs(f"{placement.run_dir}/{variant.name}")

    def _recorder(
        self, variants: Sequence[_Variant], placements: Sequence[Placement]
    ) -> ScriptRecorder:
        task = variants[0].task
        names = ", ".join(variant.task.variant for variant in variants)
        recorder = ScriptRecorder(
            f"{self.run_id}: block {task.block}, {task.workload}, {task.bucket}, {names}"
        )
        for slot, variant in enumerate(variants, start=1):
            for placement in placements:
                recorder.add_host(
                    recorder.variant(slot if len(variants) > 1 else 0).place(placement.host.name),
                    ssh=placement.ssh,
                    artifact=variant.deployed.paths[placement.host.name],
                    tools=variant.deployed.tools[placement.host.name],
                    work={
                        f"{placement.run_dir}/{variant.name}": "",
                        placement.credentials.directory: "/secret",
                    },
                    script_work=f"{placement.host.work_dir}/reproduce/{variant.name}",
                )
        return recorder

    @contextlib.contextmanager
    def _torn_down(
        self,
        recorder: ScriptRecorder,
        variants: Sequence[_Variant],
        placements: Sequence[Placement],
        abandon: Callable[[float], None],
    ) -> Iterator[None]:
        try:
            yield
        finally:
            hurry = self.hurry()
            teardown(
                abandon=lambda: abandon(0.0 if hurry else ABANDON_GRACE_S),
                script=recorder.script,
                directories=[variant.directory for variant in variants],
                remote=[]
                if hurry
                else [
                    (placement.host, f"{placement.run_dir}/{variant.name}", variant.directory)
                    for variant in variants
                    for placement in placements
                ],
            )


def _facts_of(measurement: Measured) -> dict[str, object]:
    return {**measurement.facts, **client_facts(measurement)}


def _keep_profiles(bench: GroupBench | ToolGroupBench, variants: Sequence[_Variant]) -> None:
    """Read the profiles of the variants, after the measurement."""
    if not any(variant.profiled for variant in variants):
        return
    bench.phase("read profiles")
    profilers = [variant_bench.profiler for variant_bench in bench.variants]
    for place, (profiler, variant) in enumerate(zip(profilers, variants, strict=True)):
        with attributed_to(place):
            if profiler is not None:
                variant.facts["profile"] = profiler.keep()
