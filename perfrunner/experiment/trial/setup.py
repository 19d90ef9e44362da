"""Provide the servers or programs of a unit of trials, ready to be measured, and tear them down afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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
from perfrunner.experiment.trial.server import Engine, EngineSetup, ServerError, ServerProcess
from perfrunner.experiment.trial.tool import ToolBench, ToolGroupBench
from perfrunner.hosts.process import whole_environment
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec

START_TIMEOUT_S = 60.0
ABANDON_GRACE_S = 2.0  # for processes of a trial that is given up


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
    def tools(self, trials: Sequence[TrialContext]) -> Iterator[ToolGroupBench]:
        """Provide empty directories on the first engine node; tear down as after trials with engines."""
        placement = self.engine_nodes[0]
        benches = [
            ToolBench(
                host=placement.host,
                remote=f"{placement.run_dir}/{trial.remote_name}",
                variant=self.spec.variants[trial.task.variant],
                env=self._environment(trial),
                trial=trial,
            )
            for trial in trials
        ]
        group = ToolGroupBench(
            variants=benches,
            interleaved=trials[0].task.group > 0,
            baseline=self._baseline(trials),
            cpus=self.spec.engine.cpus,
            round_seed=round_seed(self.seed, trials[0].task),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            try_each(partial(bench.abandon, grace) for bench in benches)

        with self._torn_down(trials, [placement], abandon):
            group.phase("start")
            self._clear(trials, [placement])
            self._note_schedule(trials, group)
            yield group

    # -- engines

    @contextlib.contextmanager
    def servers(self, trials: Sequence[TrialContext]) -> Iterator[GroupBench]:
        """Provide engines that are ready to serve; then stop them, fetch the logs and clean the hosts."""
        placements = self._placements
        cpus = self._cpu_sets(trials[0].deployed)
        benches = [self._bench(trial, cpus) for trial in trials]
        group = GroupBench(
            variants=benches,
            interleaved=trials[0].task.group > 0,
            baseline=self._baseline(trials),
            round_seed=round_seed(self.seed, trials[0].task),
            on_phase=self.on_phase,
        )

        def abandon(grace: float) -> None:
            engines = [engine for bench in benches for engine in bench.engines]
            everything: list[Bench | ServerProcess] = [*benches, *engines]
            try_each(partial(item.abandon, grace) for item in everything)

        with self._torn_down(trials, placements, abandon):
            group.phase("start")
            self._clear(trials, placements)
            self._note_schedule(trials, group)
            ports = choose_ports(
                self.spec, [trial.deployed for trial in trials], self.engine_nodes[0]
            )
            for bench, port in zip(benches, ports, strict=True):
                self._start(bench, cpus, port)
            for index, bench in enumerate(benches):
                with attributed_to(index):
                    for engine in bench.engines:
                        engine.wait_ready(
                            min(bench.trial.deadline, time.monotonic() + START_TIMEOUT_S)
                        )
                    bench.trial.facts["port"] = bench.engines[0].port
                    bench.form()
            try:
                yield group
            except ServerError as error:
                for index, bench in enumerate(benches):
                    if any(engine is error.server for engine in bench.engines):
                        raise VariantError(index, str(error), error.hint) from error
                raise
            except TrialError as error:
                raise attribute_to_dead_engine(error, group.dead) from error

    def _start(self, bench: Bench, cpus: CpuSets, port: int) -> None:
        """Start a server on every engine node. `bench` has each one as soon as it runs, to stop it."""
        trial = bench.trial
        trial.facts["seed"] = bench.seed
        trial.facts["cpus"] = {"engine": cpus.engine, "client": cpus.client}
        env = self._environment(trial)
        engines: list[ServerProcess] = []
        bench.engines = engines
        for placement in self.engine_nodes:
            setup = self._server(trial, placement, port, env, cpus.engine)
            with self.shield():
                engines.append(start_server(placement.host, setup, trial.recorder, self.run_id))

    def _server(
        self,
        trial: TrialContext,
        placement: Placement,
        port: int,
        env: Mapping[str, str],
        cpus: str,
    ) -> EngineSetup | CommandSetup:
        """Return the parameters of the server of a trial on one node."""
        host, deployed = placement.host.name, trial.deployed
        common: dict[str, Any] = {
            "tools": deployed.tools[host],
            "directory": f"{placement.run_dir}/{trial.remote_name}",
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
            bucket=trial.task.bucket,
            quota_mb=engine.quota_mb,
            vbuckets=engine.vbuckets,
            threads=engine.threads,
            shards=engine.shards,
            params=self.spec.params_of(trial.task.variant),
            follows=several,
            **common,
        )

    def _bench(self, trial: TrialContext, cpus: CpuSets) -> Bench:
        """Return the bench of a trial whose servers are not started yet."""
        return Bench(
            engines=[],
            placements=[
                ClientPlacement(
                    placement.host,
                    trial.deployed.tools[placement.host.name],
                    f"{placement.run_dir}/{trial.remote_name}",
                    placement.credentials,
                    cpus.client,
                    client_python(self.spec, placement.host.name),
                )
                for placement in self.load_clients
            ],
            trial=trial,
            seed=workload_seed(self.seed, trial.task),
            vbuckets=self.spec.engine.vbuckets,
            replicas=self.spec.cluster.replicas,
            sampler_cpus=cpus.client if self._together else "",
        )

    def _note_schedule(
        self, trials: Sequence[TrialContext], group: GroupBench | ToolGroupBench
    ) -> None:
        """Record in the facts of the trials how they are scheduled."""
        variants = [trial.task.variant for trial in trials]
        for slot, trial in enumerate(trials, start=1):
            trial.facts["schedule"] = "interleaved" if group.interleaved else "sequential"
            if group.interleaved:
                trial.facts["slot"] = slot
                trial.facts["variants"] = variants
                trial.facts["baseline"] = variants[group.baseline]

    def _baseline(self, trials: Sequence[TrialContext]) -> int:
        """Return the index of the baseline, or 0 if the baseline itself cannot run."""
        variants = [trial.task.variant for trial in trials]
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

    def _environment(self, trial: TrialContext) -> dict[str, str]:
        """Return the environment of the variant plus a padding of random size, drawn for this trial."""
        padding = padding_size(self.seed, trial.task)
        trial.facts["environment_padding"] = padding
        trial.facts["environment"] = whole_environment(trial.deployed.env)
        if trial.deployed.layout_seed is not None:
            trial.facts["relinked"] = trial.deployed.layout_seed
        return {**trial.deployed.env, PADDING_NAME: "0" * padding}

    def _clear(self, trials: Sequence[TrialContext], placements: Sequence[Placement]) -> None:
        """Create empty directories on every host; remove what a killed run left there."""
        for trial in trials:
            for placement in placements:
                placement.host.remove_tree(f"{placement.run_dir}/{trial.remote_name}")
                placement.host.makedirs(f"{placement.run_dir}/{trial.remote_name}")

    @contextlib.contextmanager
    def _torn_down(
        self,
        trials: Sequence[TrialContext],
        placements: Sequence[Placement],
        abandon: Callable[[float], None],
    ) -> Iterator[None]:
        """Record the hosts in the script of the trials; at the end stop everything and fetch the logs."""
        for trial in trials:
            for placement in placements:
                _add_host(trial, placement)
        try:
            yield
        finally:
            hurry = self.hurry()
            teardown(
                abandon=lambda: abandon(0.0 if hurry else ABANDON_GRACE_S),
                script=trials[0].recorder.script,
                directories=[trial.directory for trial in trials],
                remote=[]
                if hurry
                else [
                    (placement.host, f"{placement.run_dir}/{trial.remote_name}", trial.directory)
                    for trial in trials
                    for placement in placements
                ],
            )


def _add_host(trial: TrialContext, placement: Placement) -> None:
    """Tell the script of a trial about one of its hosts."""
    host = placement.host
    trial.recorder.add_host(
        host.name,
        ssh=placement.ssh,
        artifact=trial.deployed.paths[host.name],
        tools=trial.deployed.tools[host.name],
        work={
            f"{placement.run_dir}/{trial.remote_name}": "",
            placement.credentials.directory: "/secret",
        },
        script_work=f"{host.work_dir}/reproduce/{trial.remote_name}",
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
