"""Provide the servers or programs of a unit of trials, ready to be measured, and tear them down afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from perfrunner.domain import TrialKey
from perfrunner.errors import TrialError
from perfrunner.experiment.plan import padding_size, round_seed, workload_seed
from perfrunner.experiment.trial.bench import Bench
from perfrunner.experiment.trial.command_server import CommandServer, CommandSetup, free_ports
from perfrunner.experiment.trial.context import TrialContext
from perfrunner.experiment.trial.group import GroupBench
from perfrunner.experiment.trial.outcome import (
    VariantError,
    attribute_to_dead_engine,
    attributed_to,
    teardown,
    try_each,
)
from perfrunner.experiment.trial.placement import (
    ClientPlacement,
    CpuSets,
    Deployed,
    Placement,
    choose,
    client_python,
    read_topology,
)
from perfrunner.experiment.trial.reproduce import PADDING_NAME, ScriptRecorder
from perfrunner.experiment.trial.sampling import Profiler
from perfrunner.experiment.trial.server import Engine, EngineSetup, ServerError, ServerProcess
from perfrunner.experiment.trial.tool import ToolBench, ToolGroupBench
from perfrunner.hosts.process import whole_environment
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec

START_TIMEOUT_S = 60.0
ABANDON_GRACE_S = 2.0  # for processes of a trial that is given up


@dataclass
class OpenTrial:
    """A trial in progress, with the facts collected so far."""

    task: TrialKey
    deployed: Deployed
    directory: Path
    sample_interval_ms: int
    name: str  # of the directories on the hosts
    profiled: bool
    facts: dict[str, object] = field(default_factory=dict)


@dataclass
class TrialSetup:
    """The means to set up the trials of one experiment, one unit at a time."""

    spec: Spec
    run_id: str
    seed: int
    engine_nodes: Sequence[Placement]
    load_clients: Sequence[Placement]
    shield: Callable[[], AbstractContextManager[None]]
    on_phase: Callable[[str], None]
    hurry: Callable[[], bool]  # after a second Ctrl-C: stop at once and fetch no files
    _cpus: CpuSets | None = field(default=None, init=False)

    @property
    def hosts(self) -> list[Transport]:
        return [placement.host for placement in self._placements]

    @property
    def _placements(self) -> list[Placement]:
        """Return one placement of each host: an engine node may also be a load client."""
        everyone = (*self.engine_nodes, *self.load_clients)
        return list({placement.host.name: placement for placement in everyone}.values())

    # -- stand-alone programs

    @contextlib.contextmanager
    def tools(self, variants: Sequence[OpenTrial]) -> Iterator[ToolGroupBench]:
        """Provide empty directories on the first engine node; tear down as after trials with engines."""
        placement = self.engine_nodes[0]
        recorder = self._recorder(variants, [placement])
        names = [variant.task.variant for variant in variants]
        benches = [
            ToolBench(
                host=placement.host,
                artifact=variant.deployed.paths[placement.host.name],
                tools=variant.deployed.tools[placement.host.name],
                remote=f"{placement.run_dir}/{variant.name}",
                variant=self.spec.variants[variant.task.variant],
                env=self._environment(variant),
                trial=trial,
                profiler=Profiler(trial) if variant.profiled else None,
            )
            for variant, trial in zip(variants, self._contexts(variants, recorder), strict=True)
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
    def servers(self, variants: Sequence[OpenTrial]) -> Iterator[GroupBench]:
        """Provide engines that are ready to serve; then stop them, fetch the logs and clean the hosts."""
        placements = self._placements
        recorder = self._recorder(variants, placements)
        trials = self._contexts(variants, recorder)
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
            opened = zip(variants, trials, ports, strict=True)
            for slot, (variant, trial, port) in enumerate(opened, start=1):
                bench = self._bench(variant, trial, cpus)
                benches.append(bench)
                self._start(bench, variant, cpus, port)
                self._note(variant, group, names, slot)
                variant.facts["seed"] = bench.seed
                variant.facts["cpus"] = {"engine": cpus.engine, "client": cpus.client}
            for place, (bench, variant) in enumerate(zip(benches, variants, strict=True)):
                for engine in bench.engines:
                    with attributed_to(place):
                        engine.wait_ready(
                            min(bench.trial.deadline, time.monotonic() + START_TIMEOUT_S)
                        )
                variant.facts["port"] = bench.engines[0].port
                with attributed_to(place):
                    bench.form()
            try:
                yield group
            except ServerError as error:
                for place, bench in enumerate(benches):
                    if any(engine is error.server for engine in bench.engines):
                        raise VariantError(place, str(error), error.hint) from error
                raise
            except TrialError as error:
                raise attribute_to_dead_engine(error, group.dead) from error

    def _start(self, bench: Bench, variant: OpenTrial, cpus: CpuSets, port: int) -> None:
        """Start a server on every engine node. `bench` has each one as soon as it runs, to stop it."""
        env = self._environment(variant)
        engines: list[ServerProcess] = []
        bench.engines = engines
        for placement in self.engine_nodes:
            setup = self._server(variant, placement, port, env, cpus.engine)
            with self.shield():
                engines.append(
                    start_server(placement.host, setup, bench.trial.recorder, self.run_id)
                )

    def _server(
        self, variant: OpenTrial, placement: Placement, port: int, env: Mapping[str, str], cpus: str
    ) -> EngineSetup | CommandSetup:
        """Return the parameters of the server of a trial on one node."""
        host, deployed = placement.host.name, variant.deployed
        common: dict[str, Any] = {
            "tools": deployed.tools[host],
            "directory": f"{placement.run_dir}/{variant.name}",
            "credentials": placement.credentials,
            "listen": placement.listen,
            "address": placement.address,
            "port": port,
            "env": env,
            "cpus": cpus,
        }
        if deployed.server is not None:
            return CommandSetup(
                name="server",
                command=deployed.server,
                python=client_python(self.spec, host),
                **common,
            )
        engine = self.spec.engine
        several = len(self.spec.cluster.engine_nodes) > 1
        return EngineSetup(
            name=f"engine-{host}" if several else "engine",
            artifact=deployed.paths[host],
            bucket=variant.task.bucket,
            quota_mb=engine.quota_mb,
            vbuckets=engine.vbuckets,
            threads=engine.threads,
            shards=engine.shards,
            params=self.spec.params_of(variant.task.variant),
            follows=several,
            **common,
        )

    def _contexts(
        self, variants: Sequence[OpenTrial], recorder: ScriptRecorder
    ) -> list[TrialContext]:
        deadline = time.monotonic() + self.spec.limits.trial_timeout * len(variants)
        return [
            TrialContext(
                variant.directory,
                recorder.variant(slot if len(variants) > 1 else 0),
                self.run_id,
                deadline,
                self.shield,
            )
            for slot, variant in enumerate(variants, start=1)
        ]

    def _bench(self, variant: OpenTrial, trial: TrialContext, cpus: CpuSets) -> Bench:
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
            trial=trial,
            seed=workload_seed(self.seed, variant.task),
            vbuckets=self.spec.engine.vbuckets,
            replicas=self.spec.cluster.replicas,
            persistent=variant.task.bucket == "persistent",
            sampler_cpus=cpus.client if self._together else "",
            sample_interval_ms=variant.sample_interval_ms,
            profiler=Profiler(trial) if variant.profiled else None,
        )

    def _note(
        self, variant: OpenTrial, group: GroupBench | ToolGroupBench, variants: list[str], slot: int
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

    def _environment(self, variant: OpenTrial) -> dict[str, str]:
        """Return the environment of the variant plus a padding of random size, drawn for this trial."""
        padding = padding_size(self.seed, variant.task)
        variant.facts["environment_padding"] = padding
        variant.facts["environment"] = whole_environment(variant.deployed.env)
        if variant.deployed.layout_seed is not None:
            variant.facts["relinked"] = variant.deployed.layout_seed
        return {**variant.deployed.env, PADDING_NAME: "0" * padding}

    def _clear(self, variants: Sequence[OpenTrial], placements: Sequence[Placement]) -> None:
        """Create empty directories on every host; remove what a killed run left there."""
        for variant in variants:
            for placement in placements:
                placement.host.remove_tree(f"{placement.run_dir}/{variant.name}")
                placement.host.makedirs(f"{placement.run_dir}/{variant.name}")

    def _recorder(
        self, variants: Sequence[OpenTrial], placements: Sequence[Placement]
    ) -> ScriptRecorder:
        task = variants[0].task
        names = ", ".join(variant.task.variant for variant in variants)
        recorder = ScriptRecorder(
            f"{self.run_id}: block {task.block}, {task.workload}, {task.bucket}, {names}"
        )
        for slot, variant in enumerate(variants, start=1):
            for placement in placements:
                recorder.variant(slot if len(variants) > 1 else 0).add_host(
                    placement.host.name,
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
        variants: Sequence[OpenTrial],
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


def choose_ports(spec: Spec, variants: Sequence[Deployed], node: Placement) -> list[int]:
    """Return the port of each variant: those that the spec names, else 0 for an engine, which chooses itself."""
    first = spec.engine.port
    if first:
        return [first + place for place in range(len(variants))]
    count = sum(deployed.server is not None for deployed in variants)
    python = client_python(spec, node.host.name)
    free = iter(free_ports(node.host, python, node.run_dir, count) if count else ())
    return [0 if deployed.server is None else next(free) for deployed in variants]


def start_server(
    host: Transport, setup: EngineSetup | CommandSetup, recorder: ScriptRecorder, run_id: str
) -> ServerProcess:
    """Start a server without waiting until it is ready. Call it inside a signal shield."""
    if isinstance(setup, EngineSetup):
        return Engine.start(host, setup, recorder, run_id)
    return CommandServer.start(host, setup, recorder, run_id)
