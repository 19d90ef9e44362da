"""The verbs of one arm, carried out on the hosts of a trial (workloads.bench.ServerBench).

Every wait is sliced, so that an engine's death is noticed within a second and the trial's deadline holds. What the
tools print is fetched into the trial's directory as soon as it is there: a later crash does not lose it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from perfrunner.cluster.process import ProcessHandle
from perfrunner.cluster.transport import CommandTimeout
from perfrunner.cluster.vbucket_map import bracketed
from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, merge_reports, parse_report
from perfrunner.measure.instructions import (
    CountedEngine,
    CountedLoad,
    Instructions,
    count_instructions,
)
from perfrunner.measure.samples import Sample, add_nodes, parse_samples
from perfrunner.run.trial.clientseat import ClientSeat, client_failure, common_flags
from perfrunner.run.trial.engine import Engine
from perfrunner.run.trial.leaving import try_each
from perfrunner.run.trial.nodes import Nodes
from perfrunner.run.trial.pinning import pinned
from perfrunner.run.trial.profiling import Profiler
from perfrunner.run.trial.reproduce import ArmRecorder
from perfrunner.run.trial.sampling import NodesSampling, start_sampler
from perfrunner.run.trial.stepload import load_around
from perfrunner.run.trial.steps import fail_over, rebalance
from perfrunner.workloads.bench import Arguments, Around, ClientProgram, Sampling, Share, Step

SLICE_S = 1.0
SAMPLE_INTERVAL_MS = 1000
ONE_SAMPLE_TIMEOUT_S = 30.0
HELPER_TIMEOUT_S = 20.0


class Started(NamedTuple):
    """A load process under way, and the name of its files."""

    seat: ClientSeat
    name: str
    handle: ProcessHandle


@dataclass
class Bench:
    """Implements ServerBench. `processes` are those under way now; `abandon` stops them all."""

    engines: Sequence[Engine]
    seats: Sequence[ClientSeat]
    directory: Path  # of the trial, on this machine
    recorder: ArmRecorder
    run_id: str
    seed: int
    vbuckets: int
    replicas: int
    persistent: bool
    deadline: float  # monotonic
    shield: Callable[[], AbstractContextManager[None]]  # around starting a process and noting it
    sampler_cpus: str = ""  # where the samplers run on the engine's host; empty: anywhere
    sample_interval_ms: int = SAMPLE_INTERVAL_MS
    profiler: Profiler | None = None  # records for as long as it is sampled
    current_phase: str = "start"
    _processes: list[ProcessHandle] = field(default_factory=list)
    _barriers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _installed: set[tuple[str, str]] = field(default_factory=set)
    _nodes: Nodes | None = None  # what the engines were told; None: nothing yet

    # -- ServerBench

    def load(
        self,
        tool: str,
        arguments: Arguments,
        *,
        output: str,
        single: bool = False,
        in_step: bool = False,
    ) -> ClientReport:
        seats = self.seats[:1] if single else self.seats
        commands = [(seat, [f"{seat.tools}/bin/{tool}"]) for seat in seats]
        texts = self._on_clients(tool, commands, arguments, output, in_step=in_step)
        return merge_reports([parse_report(text, name) for name, text in texts.items()])

    def load_program(
        self,
        program: ClientProgram,
        arguments: Arguments,
        *,
        output: str,
        processes: int,
        in_step: bool = False,
    ) -> dict[str, str]:
        for seat in self.seats:
            self._install(program, seat)
        commands = [
            (seat, [seat.python, f"{seat.directory}/{program.file}"])
            for seat in self.seats
            for _ in range(processes)
        ]
        return self._on_clients(program.name, commands, arguments, output, in_step=in_step)

    def kept_for(self, share: Share, name: str) -> str:
        seat = self.seats[share.index * len(self.seats) // share.count]
        return f"{seat.directory}/{name}-{share.index + 1}"

    def start_helper(self, engine: Engine, name: str, argv: Sequence[str]) -> ProcessHandle:
        """A process beside the engine, until `abandon`; it prints into `<name>.out` in the engine's directory."""
        with self.shield():
            handle = engine.host.start(
                argv,
                name=self.recorder.job(name),
                log_stdout=f"{engine.setup.directory}/{name}.out",
                log_stderr=f"{engine.setup.directory}/{name}.log",
                cwd=engine.setup.directory,
                run_id=self.run_id,
            )
            self._processes.append(handle)
        return handle

    def start_client(
        self,
        argv: Sequence[str],
        seat: ClientSeat,
        name: str,
        *,
        recorded: Sequence[str] | None = None,
    ) -> ProcessHandle:
        """A load process; its output is `<name>.json` in the seat's directory. `wait_client` waits for it.

        `recorded`: what reproduce.sh says instead, where `argv` names what only this run has.
        """
        command = pinned(argv, seat.cpus)
        self.recorder.start(seat.host.name, name, pinned(recorded or argv, seat.cpus))
        with self.shield():
            handle = seat.host.start(
                command,
                name=self.recorder.job(name),
                log_stdout=f"{seat.directory}/{name}.json",
                log_stderr=f"{seat.directory}/{name}.log",
                cwd=seat.directory,
                run_id=self.run_id,
            )
            self._processes.append(handle)
        return handle

    def wait_persisted(self) -> None:
        self.nodes.wait_replicated()
        for engine in self.engines:
            timeout = max(1.0, self.time_left())
            engine.kvctl(["wait-persisted", f"--timeout={timeout:.0f}"], timeout=timeout + 5.0)

    @property
    def copies(self) -> int:
        """Of each document, the active one too."""
        return min(map(len, self.nodes.rows)) if len(self.engines) > 1 else 1

    @property
    def nodes(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes(
                self.engines, self.replicas, self.vbuckets, self.check_engines, self.time_left
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
        victim = self.engines[-1]  # the first tells clients of the others
        with self.shield():
            victim.kill()
            self.engines = self.engines[:-1]
        self.pause(detection)
        return fail_over(self.nodes, len(self.engines))

    def rebalance(self, share: float, at_once: int) -> Mapping[str, object]:
        return rebalance(self.nodes, 0, 1, share, at_once)

    def restart(self) -> None:
        self.keep_stats("-before-restart")
        for engine in self.engines:
            engine.stop(self.deadline)
        engines = self.engines = list(self.engines)
        for place, engine in enumerate(engines):
            engine.clear_port()
            with self.shield():
                engines[place] = Engine.start(engine.host, engine.setup, self.recorder, self.run_id)
        for engine in engines:
            engine.wait_ready(self.deadline)
        self._nodes = None
        self.nodes.form()

    def reset_stats(self) -> None:
        for engine in self.engines:
            engine.kvctl(["reset"])

    def counters(self) -> dict[str, float]:
        """Only figures that every node gives."""
        nodes = [engine.counters() for engine in self.engines]
        shared = set(nodes[0]).intersection(*nodes[1:])
        return {key: sum(node[key] for node in nodes) for key in sorted(shared)}

    def sample(self, name: str) -> Sample:
        nodes = []
        for engine, stem in self._samplers(name):
            kept = self.directory / f"{stem}.jsonl"
            text = engine.kvctl(
                ["sample", f"--pid={engine.handle.pid}"],
                timeout=max(1.0, min(self.time_left(), ONE_SAMPLE_TIMEOUT_S)),
                output=kept.name,
                cpus=self.sampler_cpus,
            ).stdout
            kept.write_text(text, encoding="utf-8")
            samples = parse_samples(text, kept.name)
            if not samples:
                raise TrialError(f"kvctl sample on {engine.host.name} printed nothing")
            nodes.append(samples[0])
        return add_nodes(nodes)

    def start_sampling(self, name: str) -> Sampling:
        if self.profiler is not None:
            for engine, stem in self._samplers("profile"):
                self.profiler.start(
                    engine.host,
                    engine.setup.directory,
                    engine.handle.pid,
                    name=stem,
                    cpus=self.sampler_cpus,
                    recorded=True,
                )
        return NodesSampling(self, [start_sampler(self, *its) for its in self._samplers(name)])

    def count_instructions(self, load: CountedLoad, ops: int) -> Instructions:
        engine = self.engines[0]
        setup = engine.setup
        return count_instructions(
            engine.host,
            CountedEngine(setup.artifact, setup.settings(), setup.env, setup.tools),
            load,
            directory=f"{setup.directory}/counted",
            ops=ops,
            timeout_s=self.time_left(),
        )

    # -- for the trial

    def keep_stats(self, suffix: str = "") -> None:
        """Of every engine, as it is now."""
        for engine in self.engines:
            stats = {**engine.stat(), **engine.stat("memory", "timings")}
            text = json.dumps(stats, indent=1, sort_keys=True)
            name = f"{engine.setup.name}-stat{suffix}.json"
            (self.directory / name).write_text(text + "\n", "utf-8")

    def check_engines(self) -> None:
        for engine in self.engines:
            engine.check_alive(f"during {self.current_phase}")

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Engines are looked after meanwhile, and whatever `check` looks after."""
        self.recorder.pause(seconds)
        until = time.monotonic() + seconds
        while (left := min(until - time.monotonic(), self.time_left())) > 0:
            self.check_engines()
            check()
            time.sleep(min(left, SLICE_S))

    def abandon(self, grace_s: float) -> None:
        steps = [] if self.profiler is None else [partial(self.profiler.abandon, grace_s)]
        handles = reversed(self._processes)
        try_each([*steps, *(partial(handle.stop, grace_s) for handle in handles)])
        self._processes.clear()

    # -- inside

    def time_left(self) -> float:
        """Seconds; TrialError when it is up."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TrialError(
                f"the trial's time is up, in phase {self.current_phase}",
                hint="limits.trial_timeout sets it",
            )
        return left

    def _on_clients(
        self,
        what: str,
        commands: Sequence[tuple[ClientSeat, Sequence[str]]],
        arguments: Arguments,
        output: str,
        *,
        in_step: bool,
    ) -> dict[str, str]:
        """Run the commands, each with its share of the work, and wait: by file name, what each printed."""
        started = self.start_clients(commands, arguments, output, in_step=in_step)
        self.wait_clients(what, started, self.check_engines)
        return self.printed(started)

    def start_clients(
        self,
        commands: Sequence[tuple[ClientSeat, Sequence[str]]],
        arguments: Arguments,
        output: str,
        *,
        in_step: bool,
    ) -> list[Started]:
        count = len(commands)
        barrier = self._barrier(count) if in_step and count > 1 else None
        started = []
        for index, (seat, command) in enumerate(commands):
            name = output if count == 1 else f"{output}-{index + 1}"
            argv = [*command, *self._common(seat), *arguments(Share(index, count))]
            held = argv if barrier is None else [*argv, f"--barrier={barrier}"]
            started.append(Started(seat, name, self.start_client(held, seat, name, recorded=argv)))
        return started

    def printed(self, started: Sequence[Started]) -> dict[str, str]:
        """By file name, what each of those that have ended printed."""
        texts = {}
        for seat, name, _ in started:
            kept = self.directory / f"{name}.json"
            seat.host.get_file(f"{seat.directory}/{name}.json", kept)
            texts[kept.name] = kept.read_text(encoding="utf-8")
        return texts

    def _common(self, seat: ClientSeat) -> list[str]:
        """Of every load process: the node that tells it where every vBucket is, and who we are."""
        engine = self.engines[0]
        return [f"--host={engine.setup.address}", f"--port={engine.port}", *common_flags(seat)]

    def _install(self, program: ClientProgram, seat: ClientSeat) -> None:
        """Once a trial and client."""
        path = f"{seat.directory}/{program.file}"
        if (seat.host.name, path) not in self._installed:
            seat.host.put_bytes(program.archive, path)
            self.recorder.write_bytes(seat.host.name, path, program.archive)
            self._installed.add((seat.host.name, path))

    def _barrier(self, parties: int) -> str:
        """Where the load processes of several hosts wait for each other; on the first engine's host."""
        engine = self.engines[0]
        listen = f"--listen={bracketed(engine.setup.listen)}"
        kvctl = f"{engine.setup.tools}/bin/kvctl"
        name = f"barrier-{next(self._barriers)}"
        self.start_helper(engine, name, [kvctl, "barrier", listen, f"--parties={parties}"])
        port = self.helper_port(engine, name)
        return f"{bracketed(engine.setup.address)}:{port}"

    def helper_port(self, engine: Engine, name: str) -> int:
        """What a helper printed when it was ready to serve."""
        said = f"{engine.setup.directory}/{name}.out"
        until = time.monotonic() + HELPER_TIMEOUT_S
        while True:
            text = engine.host.read_text(said) if engine.host.exists(said) else ""
            if text.endswith("\n"):
                return int(json.loads(text)["port"])
            self.check_engines()
            if time.monotonic() > until:
                raise TrialError(f"the {name} on {engine.host.name} does not come up")
            time.sleep(0.02)

    def wait_client(
        self,
        tool: str,
        seat: ClientSeat,
        name: str,
        handle: ProcessHandle,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Until it has ended well. `check` looks after the engines meanwhile (this arm's, if nothing else is said)."""
        self.wait_clients(tool, [Started(seat, name, handle)], check or self.check_engines)

    def wait_clients(self, tool: str, started: Sequence[Started], look: Callable[[], None]) -> None:
        """Until all have ended well. Each is looked at in turn: one that fails is noticed while others wait for it."""
        for _, name, _ in started:
            self.recorder.wait(name)
        waiting = deque(started)
        while waiting:
            one = waiting.popleft()
            try:
                status = one.handle.wait(min(SLICE_S, self.time_left()))
            except CommandTimeout:
                look()
                waiting.append(one)
                continue
            one.handle.stop(0.0)  # it has ended: this takes it out of the host's ledger
            self.forget(one.handle)
            if not status.ok:
                look()
                raise client_failure(tool, one.seat, one.name, status)

    def forget(self, handle: ProcessHandle) -> None:
        """Of one that has been stopped."""
        self._processes.remove(handle)

    def _samplers(self, name: str) -> Iterator[tuple[Engine, str]]:
        """Each engine node, and the name of its samples."""
        for index, engine in enumerate(self.engines):
            yield engine, name if len(self.engines) == 1 else f"{name}-{index + 1}"
