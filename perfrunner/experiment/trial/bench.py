"""Drive the servers and clients of one variant in one trial, on behalf of a workload's scenario."""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.cluster import Nodes, fail_over, load_around, rebalance
from perfrunner.experiment.trial.context import TrialContext
from perfrunner.experiment.trial.outcome import try_each
from perfrunner.experiment.trial.placement import ClientPlacement, bracketed, client_failure, pinned
from perfrunner.experiment.trial.sampling import Profiler, sample_once, start_sampling
from perfrunner.experiment.trial.server import Engine, ServerProcess
from perfrunner.hosts.process import CommandTimeout, ProcessHandle
from perfrunner.measure.client import ClientReport, parse_reports
from perfrunner.measure.instructions import (
    CountedEngine,
    CountedLoad,
    Instructions,
    count_instructions,
)
from perfrunner.measure.memory import Sample
from perfrunner.workloads.bench import Arguments, Around, ClientProgram, Sampling, Share, Step

POLL_S = 1.0
HELPER_TIMEOUT_S = 20.0


class Started(NamedTuple):
    """A running load process, and the name of its files."""

    placement: ClientPlacement
    name: str
    handle: ProcessHandle


@dataclass
class Bench:
    """The servers and clients of one variant in one trial (implements workloads.bench.ServerBench).

    `abandon` stops all processes that are still running.
    """

    engines: Sequence[ServerProcess]
    placements: Sequence[ClientPlacement]
    trial: TrialContext
    seed: int
    vbuckets: int
    replicas: int
    sampler_cpus: str = ""  # CPUs of the samplers on the engine's host; empty: any
    profiler: Profiler | None = field(init=False)  # records while sampling is on
    current_phase: str = "start"
    _processes: list[ProcessHandle] = field(default_factory=list)
    _barriers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _installed: set[tuple[str, str]] = field(default_factory=set)
    _nodes: Nodes | None = None  # the cluster map of the engines; None: not formed yet

    def __post_init__(self) -> None:
        self.profiler = Profiler(self.trial) if self.trial.profiled else None

    # -- ServerBench

    @property
    def persistent(self) -> bool:
        return self.trial.task.bucket == "persistent"

    def load(
        self,
        tool: str,
        arguments: Arguments,
        *,
        output: str,
        single: bool = False,
        in_step: bool = False,
    ) -> ClientReport:
        placements = self.placements[:1] if single else self.placements
        commands = [(placement, [f"{placement.tools}/bin/{tool}"]) for placement in placements]
        return parse_reports(self._on_clients(tool, commands, arguments, output, in_step=in_step))

    def load_program(
        self,
        program: ClientProgram,
        arguments: Arguments,
        *,
        output: str,
        processes: int,
        in_step: bool = False,
    ) -> dict[str, str]:
        for placement in self.placements:
            self._install(program, placement)
        commands = [
            (placement, [placement.python, f"{placement.directory}/{program.file}"])
            for placement in self.placements
            for _ in range(processes)
        ]
        return self._on_clients(program.name, commands, arguments, output, in_step=in_step)

    def kept_for(self, share: Share, name: str) -> str:
        placement = self.placements[share.index * len(self.placements) // share.count]
        return f"{placement.directory}/{name}-{share.index + 1}"

    def start_helper(self, engine: ServerProcess, name: str, argv: Sequence[str]) -> ProcessHandle:
        """Start a process on the engine's host that runs until `abandon`.

        It prints into `<name>.out` in the engine's directory.
        """
        log = f"{engine.setup.directory}/{name}.out"
        return self.trial.start(engine.host, argv, name, log, self._processes)

    def start_client(
        self,
        argv: Sequence[str],
        placement: ClientPlacement,
        name: str,
        *,
        recorded: Sequence[str] | None = None,
    ) -> ProcessHandle:
        """Start a load process; `wait_clients` waits for it.

        Its output is `<name>.json` in the directory of the placement. `recorded` is the command for reproduce.sh, when
        `argv` contains names that exist only in this run.
        """
        command = pinned(argv, placement.cpus)
        script_command = pinned(recorded or argv, placement.cpus)
        self.trial.recorder.start(placement.host.name, name, script_command)
        log = f"{placement.directory}/{name}.json"
        return self.trial.start(placement.host, command, name, log, self._processes)

    def form(self) -> None:
        """Make a cluster of the engines, if there are several."""
        if len(self.engines) > 1:
            self.nodes.form()

    def wait_persisted(self) -> None:
        if len(self.engines) > 1:
            self.nodes.wait_replicated()
        for engine in self.engines:
            timeout = max(1.0, self.time_left())
            engine.wait_quiet(timeout)

    @property
    def has_figures(self) -> bool:
        """Return whether the servers report their memory; one of an unknown kind need not."""
        return all(engine.HAS_FIGURES for engine in self.engines)

    @property
    def copies(self) -> int:
        """Return the number of copies of each document, including the active one."""
        return min(map(len, self.nodes.rows)) if len(self.engines) > 1 else 1

    @property
    def nodes(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes(
                self._own_engines(),
                self.replicas,
                self.vbuckets,
                self.check_engines,
                self.time_left,
            )
        return self._nodes

    def load_around(
        self,
        tool: str,
        arguments: Arguments,
        step: Step,
        *,
        output: str,
        before: float,
        after: float,
    ) -> Around:
        return load_around(self, tool, arguments, step, output=output, before=before, after=after)

    def fail_over(self, detection: float = 0.0) -> Mapping[str, object]:
        victim = self.engines[-1]  # clients get the cluster map from the first engine
        with self.trial.shield():
            victim.kill()
            self.engines = self.engines[:-1]
        self.pause(detection)
        return fail_over(self.nodes, len(self.engines))

    def rebalance(self, share: float, at_once: int) -> Mapping[str, object]:
        return rebalance(self.nodes, 0, 1, share, at_once)

    def restart(self) -> None:
        self.keep_stats("-before-restart")
        for engine in self.engines:
            engine.stop(self.trial.deadline)
        engines = self._own_engines()
        self.engines = engines
        for index, engine in enumerate(engines):
            engine.clear_port()
            with self.trial.shield():
                engines[index] = Engine.start(
                    engine.host, engine.setup, self.trial.recorder, self.trial.run_id
                )
        for engine in engines:
            engine.wait_ready(self.trial.deadline)
        self._nodes = None
        self.form()

    def reset_stats(self) -> None:
        for engine in self.engines:
            engine.reset_stats()

    def counters(self) -> dict[str, float]:
        """Return the sums over all nodes of the counters that every node reports."""
        nodes = [engine.counters() for engine in self.engines]
        shared = set(nodes[0]).intersection(*nodes[1:])
        return {key: sum(node[key] for node in nodes) for key in sorted(shared)}

    def sample(self, name: str) -> Sample:
        return sample_once(self, name)

    def start_sampling(self, name: str) -> Sampling:
        return start_sampling(self, name)

    def count_instructions(self, load: CountedLoad, ops: int) -> Instructions:
        engine = self._own_engines()[0]
        setup = engine.setup
        return count_instructions(
            engine.host,
            CountedEngine(setup.artifact, setup.settings(), setup.env, setup.tools),
            load,
            directory=f"{setup.directory}/counted",
            ops=ops,
            timeout_s=self.time_left(),
        )

    # -- used by the trial runner

    def keep_stats(self, suffix: str = "") -> None:
        """Write the current statistics of every engine to the trial's directory."""
        for engine in self.engines:
            text = json.dumps(engine.statistics(), indent=1, sort_keys=True)
            name = f"{engine.setup.name}-stat{suffix}.json"
            (self.trial.directory / name).write_text(text + "\n", "utf-8")

    def check_engines(self) -> None:
        for engine in self.engines:
            engine.check_alive(f"during {self.current_phase}")

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait, and check the engines while waiting; call `check` as well."""
        self.trial.recorder.pause(seconds)
        until = time.monotonic() + seconds
        while (left := min(until - time.monotonic(), self.time_left())) > 0:
            self.check_engines()
            check()
            time.sleep(min(left, POLL_S))

    def abandon(self, grace_s: float) -> None:
        steps = [] if self.profiler is None else [partial(self.profiler.abandon, grace_s)]
        handles = reversed(self._processes)
        try_each([*steps, *(partial(handle.stop, grace_s) for handle in handles)])
        self._processes.clear()

    # -- internal

    def _own_engines(self) -> list[Engine]:
        """Return the engines, for what only they can do; a spec with another server does not ask for it."""
        engines = [engine for engine in self.engines if isinstance(engine, Engine)]
        if len(engines) < len(self.engines):
            raise TrialError("this needs the engine, but the variant is another server")
        return engines

    def time_left(self) -> float:
        """Return the seconds left for the trial; raise TrialError if there are none."""
        left = self.trial.deadline - time.monotonic()
        if left <= 0:
            raise TrialError(
                f"the trial timed out in phase {self.current_phase}",
                hint="if it needs more time, raise limits.trial_timeout",
            )
        return left

    def _on_clients(
        self,
        tool: str,
        commands: Sequence[tuple[ClientPlacement, Sequence[str]]],
        arguments: Arguments,
        output: str,
        *,
        in_step: bool,
    ) -> dict[str, str]:
        """Run the commands, each with its share of the work; return the output of each, by file name."""
        started = self.start_clients(commands, arguments, output, in_step=in_step)
        self.wait_clients(tool, started, self.check_engines)
        return self.printed(started)

    def start_clients(
        self,
        commands: Sequence[tuple[ClientPlacement, Sequence[str]]],
        arguments: Arguments,
        output: str,
        *,
        in_step: bool,
    ) -> list[Started]:
        count = len(commands)
        barrier = self._barrier(count) if in_step and count > 1 else None
        started = []
        for index, (placement, command) in enumerate(commands):
            name = output if count == 1 else f"{output}-{index + 1}"
            argv = [*command, *self._common(placement), *arguments(Share(index, count))]
            held = argv if barrier is None else [*argv, f"--barrier={barrier}"]
            started.append(
                Started(placement, name, self.start_client(held, placement, name, recorded=argv))
            )
        return started

    def printed(self, started: Sequence[Started]) -> dict[str, str]:
        """Fetch the outputs of finished load processes; return them by file name."""
        texts = {}
        for placement, name, _ in started:
            local = self.trial.directory / f"{name}.json"
            placement.host.get_file(f"{placement.directory}/{name}.json", local)
            texts[local.name] = local.read_text(encoding="utf-8")
        return texts

    def _common(self, placement: ClientPlacement) -> list[str]:
        """Return the flags of every load process: the node that provides the cluster map, and the credentials."""
        engine = self.engines[0]
        return [*engine.connection(), *engine.session(placement.credentials)]

    def _install(self, program: ClientProgram, placement: ClientPlacement) -> None:
        """Copy the program to the client, once per trial."""
        path = f"{placement.directory}/{program.file}"
        if (placement.host.name, path) not in self._installed:
            placement.host.put_bytes(program.archive, path)
            self.trial.recorder.write_bytes(placement.host.name, path, program.archive)
            self._installed.add((placement.host.name, path))

    def _barrier(self, parties: int) -> str:
        """Start a barrier for the load processes on the first engine's host; return its address."""
        engine = self.engines[0]
        listen = f"--listen={bracketed(engine.setup.listen)}"
        kvctl = f"{engine.setup.tools}/bin/kvctl"
        name = f"barrier-{next(self._barriers)}"
        self.start_helper(engine, name, [kvctl, "barrier", listen, f"--parties={parties}"])
        port = self.helper_port(engine, name)
        return f"{bracketed(engine.setup.address)}:{port}"

    def helper_port(self, engine: ServerProcess, name: str) -> int:
        """Return the port that a helper process printed when it was ready."""
        output = f"{engine.setup.directory}/{name}.out"
        until = time.monotonic() + HELPER_TIMEOUT_S
        while True:
            text = engine.host.read_text(output) if engine.host.exists(output) else ""
            if text.endswith("\n"):
                return int(json.loads(text)["port"])
            self.check_engines()
            if time.monotonic() > until:
                # Its output is a file there. If the disk is full, this raises what the helper could not write.
                engine.host.put_bytes(b"\n", f"{engine.setup.directory}/{name}.written")
                raise TrialError(
                    f"{name} on {engine.host.name} did not start within {HELPER_TIMEOUT_S:.0f} s"
                )
            time.sleep(0.02)

    def wait_clients(
        self, tool: str, started: Sequence[Started], check: Callable[[], None]
    ) -> None:
        """Wait until all load processes have ended successfully; call `check` while waiting.

        They are polled one after another, so that a failure is noticed while other processes wait for the failed one.
        """
        for _, name, _ in started:
            self.trial.recorder.wait(name)
        waiting = deque(started)
        while waiting:
            client = waiting.popleft()
            try:
                status = client.handle.wait(min(POLL_S, self.time_left()))
            except CommandTimeout:
                check()
                waiting.append(client)
                continue
            client.handle.stop(0.0)  # removes the ended process from the host's process registry
            self.forget(client.handle)
            if not status.ok:
                check()
                raise client_failure(tool, client.placement, client.name, status)

    def forget(self, handle: ProcessHandle) -> None:
        """Stop tracking a process that has ended."""
        self._processes.remove(handle)
