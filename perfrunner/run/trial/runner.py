"""One unit of a run: fresh engines on empty data, the workload's scenario, a clean stop, and whether it counts.

A unit is one trial, or the trials of an ensemble, whose engines are alive side by side; both go the same way. A
workload that is a tool's (a micro-benchmark) starts no engine; all else is the same. Reads top to bottom in
`TrialRunner.run`. Everything a trial left is in its directory on this machine when `run` returns or raises; nothing of
it is left on the hosts. A crash, a client's failure or a time-out make a trial *failed*, and those that were alive
beside it *void*; a rule of validity.py makes it *void*; all keep their logs. A lost link, a full disk here and Ctrl-C
are not the trial's: they are raised.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from perfrunner.cluster.environment import whole_environment
from perfrunner.cluster.transport import LinkLost
from perfrunner.errors import HostError, TrialError
from perfrunner.run.diskspace import disk_is_full
from perfrunner.run.events import TrialStatus
from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.blame import blame, explained, laid_to
from perfrunner.run.trial.clientseat import ClientSeat
from perfrunner.run.trial.copies import verify_copies
from perfrunner.run.trial.draws import padding_size, round_seed, workload_seed
from perfrunner.run.trial.engine import Engine, EngineSetup
from perfrunner.run.trial.ensemble import EnsembleBench
from perfrunner.run.trial.interpreter import client_python
from perfrunner.run.trial.leaving import leave, try_each
from perfrunner.run.trial.pinning import CpuSets, choose, read_topology
from perfrunner.run.trial.pressure import read_pressure
from perfrunner.run.trial.profiling import Profiler
from perfrunner.run.trial.reproduce import PADDING_NAME, ArmRecorder, Recorder
from perfrunner.run.trial.seats import (
    Deployed,
    Seat,
    TrialResult,
    fresh_directory,
    remote_name,
    trial_name,
)
from perfrunner.run.trial.serverbench import SAMPLE_INTERVAL_MS, Bench
from perfrunner.run.trial.toolbench import ToolBench
from perfrunner.run.trial.toolensemble import ToolEnsembleBench
from perfrunner.run.trial.validity import ensemble_reasons, void_reasons
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload
from perfrunner.workloads.bench import Measured
from perfrunner.workloads.metrics import client_facts
from perfrunner.workloads.registry import scenario_for, tool_scenario_for

START_TIMEOUT_S = 60.0
ABANDON_GRACE_S = 2.0  # for what is stopped because the trial is given up


@dataclass
class _Arm:
    """A trial under way: what is known of it so far."""

    task: Task
    deployed: Deployed
    directory: Path
    sample_interval_ms: int
    name: str  # of its directories on the hosts
    profiled: bool
    facts: dict[str, object] = field(default_factory=dict)


@dataclass
class TrialRunner:
    """Runs the trials of one experiment, one unit at a time."""

    spec: Spec
    run_id: str
    seed: int
    engine_nodes: Sequence[Seat]
    load_clients: Sequence[Seat]
    trials_dir: Path
    shield: Callable[[], AbstractContextManager[None]]
    on_phase: Callable[[str, float | None], None]
    host_changes: Callable[[], list[str]]  # host facts that no longer hold
    hurry: Callable[[], bool]  # a second Ctrl-C: no grace, and nothing is fetched
    _cpus: CpuSets | None = field(default=None, init=False)

    def run(
        self,
        tasks: Sequence[Task],
        deployed: Mapping[str, Deployed],
        *,
        sample_interval_ms: Sequence[int] | None = None,
        profiled: bool = False,
    ) -> list[TrialResult]:
        """The trials of a unit, in the order of their slots. `deployed` is by variant.

        `profiled`: perf records the arms meanwhile; what it saw is kept with each trial, how is its fact `profile`.
        """
        started_at = datetime.now(timezone.utc)
        intervals = sample_interval_ms or [SAMPLE_INTERVAL_MS] * len(tasks)
        arms = [
            _Arm(
                task,
                deployed[task.variant],
                fresh_directory(self._directory(task)),
                interval,
                remote_name(task, self.spec.variants),
                profiled,
            )
            for task, interval in zip(tasks, intervals, strict=True)
        ]
        hosts = list({seat.host.name: seat.host for seat in self._seats}.values())
        ended: list[tuple[TrialStatus, str, Measured | None]]
        try:
            before = read_pressure(hosts)
            measured = self._measure(arms)
            pressure = read_pressure(hosts).share_since(before)
            for arm in arms:
                arm.facts["cpu_pressure"] = pressure
            common = [*ensemble_reasons(measured, self.spec.limits), *self.host_changes()]
            ended = [self._judged(one, common) for one in measured]
        except (ValueError, ArithmeticError) as error:
            # Of figures that no tool should give; the trial's files show them.
            text = f"the figures of the trial make no sense: {error!r}"
            ended = [("failed", text, None) for _ in arms]
        except (TrialError, HostError) as error:
            if isinstance(error, LinkLost) or disk_is_full(error):
                raise
            ended = [
                (status, reason, None)
                for status, reason in blame(error, [arm.task.variant for arm in arms])
            ]
        finished_at = datetime.now(timezone.utc)
        return [
            TrialResult(
                task=arm.task,
                status=status,
                reason=reason,
                started_at=started_at,
                finished_at=finished_at,
                directory=arm.directory,
                metrics={} if one is None else one.metrics,
                facts={**arm.facts, **({} if one is None else {**one.facts, **client_facts(one)})},
            )
            for arm, (status, reason, one) in zip(arms, ended, strict=True)
        ]

    @property
    def _seats(self) -> Sequence[Seat]:
        return (*self.engine_nodes, *self.load_clients)

    def _judged(self, one: Measured, common: list[str]) -> tuple[TrialStatus, str, Measured]:
        if odd := [name for name, value in one.metrics.items() if not math.isfinite(value)]:
            finite = {k: v for k, v in one.metrics.items() if k not in odd}
            text = f"{', '.join(odd)}: no finite number"
            return ("failed", text, replace(one, metrics=finite))
        reasons = void_reasons(one, self.spec.limits) + common
        return ("void" if reasons else "ok", "; ".join(reasons), one)

    def _measure(self, arms: Sequence[_Arm]) -> list[Measured]:
        workload = self.spec.workloads[arms[0].task.workload]
        if arms[0].profiled:
            workload = workload.under_profiler()
        if isinstance(workload, ToolWorkload):
            with self._tool_ensemble(arms) as tools:
                measured = tool_scenario_for(workload.type)(tools, workload)
                _keep_profiles(tools, arms)
                return measured
        with self._ensemble(arms) as bench:
            measured = scenario_for(workload.type)(bench, workload)
            _keep_profiles(bench, arms)
            for arm in bench.arms:
                arm.keep_stats()
            if how := self.spec.engine.verify:
                bench.phase("verify replicas")
                for place, (arm, of) in enumerate(zip(bench.arms, arms, strict=True)):
                    with laid_to(place):
                        of.facts["verified"] = verify_copies(arm, how)
            bench.phase("stop")
            for place, arm in enumerate(bench.arms):
                for engine in arm.engines:
                    with laid_to(place):
                        engine.stop(arm.deadline)
            return measured

    # -- a program that needs no engine

    @contextlib.contextmanager
    def _tool_ensemble(self, arms: Sequence[_Arm]) -> Iterator[ToolEnsembleBench]:
        """Empty directories on the first engine node, and no engine; on the way out as after a server's trials."""
        seat = self.engine_nodes[0]
        recorder = self._recorder(arms, [seat])
        deadline = time.monotonic() + self.spec.limits.trial_timeout * len(arms)
        variants = [arm.task.variant for arm in arms]
        benches = [
            ToolBench(
                host=seat.host,
                artifact=arm.deployed.paths[seat.host.name],
                tools=arm.deployed.tools[seat.host.name],
                remote=f"{seat.run_dir}/{arm.name}",
                directory=arm.directory,
                variant=self.spec.variants[arm.task.variant],
                env=self._environment(arm),
                recorder=recorder.arm(slot if len(arms) > 1 else 0),
                run_id=self.run_id,
                deadline=deadline,
                shield=self.shield,
                profiler=self._profiler(arm, recorder.arm(slot if len(arms) > 1 else 0)),
            )
            for slot, arm in enumerate(arms, start=1)
        ]
        ensemble = ToolEnsembleBench(
            arms=benches,
            side_by_side=arms[0].task.ensemble > 0,
            baseline=self._baseline(variants),
            recorder=recorder,
            cpus=self.spec.engine.cpus,
            round_seed=round_seed(self.seed, arms[0].task),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            try_each(partial(bench.abandon, grace) for bench in benches)

        with self._left(recorder, arms, [seat], abandon):
            ensemble.phase("start")
            self._clear(arms, [seat])
            for slot, arm in enumerate(arms, start=1):
                self._note(arm, ensemble, variants, slot)
            yield ensemble

    # -- engines

    @contextlib.contextmanager
    def _ensemble(self, arms: Sequence[_Arm]) -> Iterator[EnsembleBench]:
        """Engines ready to serve; on the way out everything is stopped, fetched and cleared from the hosts."""
        seats = list({s.host.name: s for s in self._seats}.values())
        recorder = self._recorder(arms, seats)
        deadline = time.monotonic() + self.spec.limits.trial_timeout * len(arms)
        first = arms[0].task
        variants = [arm.task.variant for arm in arms]
        cpus = self._cpu_sets(arms[0].deployed)
        benches: list[Bench] = []
        ensemble = EnsembleBench(
            arms=benches,
            side_by_side=first.ensemble > 0,
            baseline=self._baseline(variants),
            recorder=recorder,
            directory=arms[0].directory,
            round_seed=round_seed(self.seed, first),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            engines = [engine for bench in benches for engine in bench.engines]
            all_of_it: list[Bench | Engine] = [*benches, *engines]
            try_each(partial(one.abandon, grace) for one in all_of_it)

        with self._left(recorder, arms, seats, abandon):
            ensemble.phase("start")
            self._clear(arms, seats)
            for slot, arm in enumerate(arms, start=1):
                numbered = slot if len(arms) > 1 else 0
                bench = self._bench(arm, recorder, numbered, cpus, deadline)
                benches.append(bench)
                env = self._environment(arm)
                engines: list[Engine] = []
                bench.engines = engines
                for seat in self.engine_nodes:
                    setup = self._setup(arm, seat, env, slot - 1, cpus)
                    with self.shield():
                        engines.append(Engine.start(seat.host, setup, bench.recorder, self.run_id))
                self._note(arm, ensemble, variants, slot)
                arm.facts["seed"] = bench.seed
                arm.facts["cpus"] = {"engine": cpus.engine, "client": cpus.client}
            for place, (bench, arm) in enumerate(zip(benches, arms, strict=True)):
                for engine in bench.engines:
                    with laid_to(place):
                        engine.wait_ready(min(deadline, time.monotonic() + START_TIMEOUT_S))
                arm.facts["port"] = bench.engines[0].port
                with laid_to(place):
                    bench.nodes.form()
            try:
                yield ensemble
            except TrialError as error:
                raise explained(error, ensemble.dead) from error

    def _bench(
        self, arm: _Arm, recorder: Recorder, slot: int, cpus: CpuSets, deadline: float
    ) -> Bench:
        return Bench(
            engines=[],
            seats=[
                ClientSeat(
                    seat.host,
                    arm.deployed.tools[seat.host.name],
                    f"{seat.run_dir}/{arm.name}",
                    seat.credentials,
                    cpus.client,
                    client_python(self.spec, seat.host.name),
                )
                for seat in self.load_clients
            ],
            directory=arm.directory,
            recorder=recorder.arm(slot),
            run_id=self.run_id,
            seed=workload_seed(self.seed, arm.task),
            vbuckets=self.spec.engine.vbuckets,
            replicas=self.spec.cluster.replicas,
            persistent=arm.task.bucket == "persistent",
            deadline=deadline,
            shield=self.shield,
            sampler_cpus=cpus.client if self._together else "",
            sample_interval_ms=arm.sample_interval_ms,
            profiler=self._profiler(arm, recorder.arm(slot)),
        )

    def _profiler(self, arm: _Arm, recorder: ArmRecorder) -> Profiler | None:
        return Profiler(arm.directory, recorder, self.run_id, self.shield) if arm.profiled else None

    def _setup(
        self, arm: _Arm, seat: Seat, env: Mapping[str, str], place: int, cpus: CpuSets
    ) -> EngineSetup:
        engine = self.spec.engine
        several = len(self.engine_nodes) > 1
        return EngineSetup(
            name=f"engine-{seat.host.name}" if several else "engine",
            artifact=arm.deployed.paths[seat.host.name],
            tools=arm.deployed.tools[seat.host.name],
            directory=f"{seat.run_dir}/{arm.name}",
            credentials=seat.credentials,
            listen=seat.listen,
            address=seat.address,
            port=engine.port + place if engine.port else 0,
            bucket=arm.task.bucket,
            quota_mb=engine.quota_mb,
            vbuckets=engine.vbuckets,
            threads=engine.threads,
            shards=engine.shards,
            params=self.spec.params_of(arm.task.variant),
            env=env,
            cpus=cpus.engine,
            follows=several,
        )

    def _note(
        self, arm: _Arm, ensemble: EnsembleBench | ToolEnsembleBench, variants: list[str], slot: int
    ) -> None:
        """How the trial was run, as far as its arm knows."""
        arm.facts["schedule"] = "side-by-side" if ensemble.side_by_side else "sequential"
        if ensemble.side_by_side:
            arm.facts["slot"] = slot
            arm.facts["arms"] = variants
            arm.facts["baseline"] = variants[ensemble.baseline]

    def _baseline(self, variants: list[str]) -> int:
        """The arm that the others are compared with: the first where the baseline itself cannot run."""
        return variants.index(self.spec.baseline) if self.spec.baseline in variants else 0

    @property
    def _together(self) -> bool:
        """Whether clients and engine share a host."""
        return {s.host.name for s in self.engine_nodes} == {s.host.name for s in self.load_clients}

    def _cpu_sets(self, deployed: Deployed) -> CpuSets:
        """Chosen once, so that it is the same for every arm and trial."""
        if self._cpus is None:
            node = self.engine_nodes[0].host
            topology = read_topology(node, deployed.tools[node.name])
            self._cpus = choose(
                self.spec.engine.cpus, self.spec.client.cpus, topology, together=self._together
            )
        return self._cpus

    # -- what every trial has

    def _directory(self, task: Task) -> Path:
        return self.trials_dir / trial_name(task)

    def _environment(self, arm: _Arm) -> dict[str, str]:
        """The variant's, and as many bytes of padding as this trial draws."""
        padding = padding_size(self.seed, arm.task)
        arm.facts["environment_padding"] = padding
        arm.facts["environment"] = whole_environment(arm.deployed.env)
        if arm.deployed.layout_seed is not None:
            arm.facts["relinked"] = arm.deployed.layout_seed
        return {**arm.deployed.env, PADDING_NAME: "0" * padding}

    def _clear(self, arms: Sequence[_Arm], seats: Sequence[Seat]) -> None:
        """Empty directories on every host: whatever a killed run left goes."""
        for arm in arms:
            for seat in seats:
                seat.host.remove_tree(f"{seat.run_dir}/{arm.name}")
                seat.host.makedirs(f"{seat.run_dir}/{arm.name}")

    def _recorder(self, arms: Sequence[_Arm], seats: Sequence[Seat]) -> Recorder:
        task = arms[0].task
        names = ", ".join(arm.task.variant for arm in arms)
        recorder = Recorder(
            f"{self.run_id}: block {task.block}, {task.workload}, {task.bucket}, {names}"
        )
        for slot, arm in enumerate(arms, start=1):
            for seat in seats:
                recorder.add_host(
                    recorder.arm(slot if len(arms) > 1 else 0).place(seat.host.name),
                    ssh=seat.ssh,
                    artifact=arm.deployed.paths[seat.host.name],
                    tools=arm.deployed.tools[seat.host.name],
                    work={
                        f"{seat.run_dir}/{arm.name}": "",
                        seat.credentials.directory: "/secret",
                    },
                    script_work=f"{seat.host.work_dir}/reproduce/{arm.name}",
                )
        return recorder

    @contextlib.contextmanager
    def _left(
        self,
        recorder: Recorder,
        arms: Sequence[_Arm],
        seats: Sequence[Seat],
        abandon: Callable[[float], None],
    ) -> Iterator[None]:
        try:
            yield
        finally:
            hurry = self.hurry()
            leave(
                abandon=lambda: abandon(0.0 if hurry else ABANDON_GRACE_S),
                script=recorder.script,
                directories=[arm.directory for arm in arms],
                remote=[]
                if hurry
                else [
                    (seat.host, f"{seat.run_dir}/{arm.name}", arm.directory)
                    for arm in arms
                    for seat in seats
                ],
            )


def _keep_profiles(bench: EnsembleBench | ToolEnsembleBench, arms: Sequence[_Arm]) -> None:
    """Of the arms that have a profiler: nothing is measured any more."""
    if not arms[0].profiled:
        return
    bench.phase("read profiles")
    profilers = [one.profiler for one in bench.arms]
    for place, (profiler, arm) in enumerate(zip(profilers, arms, strict=True)):
        with laid_to(place):
            if profiler is not None:
                arm.facts["profile"] = profiler.keep()
