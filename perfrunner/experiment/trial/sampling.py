"""Observe the servers of a variant while the load runs: sample them (`kvctl sample`), and profile their CPU with perf.

The profiler: call `start` for each process when the load begins, `stop` when it has ended, and `keep` after the
measurement. perf resolves the function names on the host; the stacks are folded on this machine and stored as
`profile.folded`. The perf processes are in the process registries of the hosts, as samplers are. A second perf process
counts hardware events, if the host has counters.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from perfrunner.errors import HostError, TrialError
from perfrunner.experiment.trial.context import TrialContext
from perfrunner.experiment.trial.outcome import try_each
from perfrunner.experiment.trial.placement import log_tail, pinned
from perfrunner.experiment.trial.server import ServerError, ServerProcess, error_text
from perfrunner.hosts.process import CommandTimeout, ExitStatus, LinkLost, ProcessHandle
from perfrunner.hosts.transport import Transport
from perfrunner.measure.cpu_profile import (
    FREQUENCY,
    Folded,
    added,
    added_counts,
    fetch_folded,
    is_full,
    parse_stat,
    record_command,
    recorded_event,
    script_command,
    stat_command,
)
from perfrunner.measure.memory import Sample, add_nodes, parse_samples
from perfrunner.results.raw import PROFILE_FILE

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench


STOP_GRACE_S = 30.0  # the sample that is being taken may wait for a busy server
ONE_SAMPLE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Sampler:
    """A running sampler: `stem` names its samples, `remote` is their file on the engine's host."""

    engine: ServerProcess
    handle: ProcessHandle
    stem: str
    remote: str


def sample_once(bench: Bench, name: str) -> Sample:
    nodes = []
    for engine, stem in _samplers(bench, name):
        local = bench.trial.directory / f"{stem}.jsonl"
        text = engine.run(
            engine.sampler([]),
            "the sampler",
            timeout=max(1.0, min(bench.time_left(), ONE_SAMPLE_TIMEOUT_S)),
            output=local.name,
            cpus=bench.sampler_cpus,
        ).stdout
        local.write_text(text, encoding="utf-8")
        samples = parse_samples(text, local.name)
        if not samples:
            raise TrialError(f"the sampler on {engine.host.name} printed nothing")
        nodes.append(samples[0])
    return add_nodes(nodes)


def start_sampling(bench: Bench, name: str) -> NodesSampling:
    """Start the samplers, and the profiler first if the trial has one."""
    if bench.profiler is not None:
        for engine, stem in _samplers(bench, "profile"):
            bench.profiler.start(
                engine.host,
                engine.setup.directory,
                engine.handle.pid,
                name=stem,
                cpus=bench.sampler_cpus,
                recorded=True,
            )
    return NodesSampling(
        bench, [_start_sampler(bench, engine, stem) for engine, stem in _samplers(bench, name)]
    )


def _samplers(bench: Bench, name: str) -> Iterator[tuple[ServerProcess, str]]:
    """Yield each engine and the name of its samples."""
    for index, engine in enumerate(bench.engines):
        yield engine, name if len(bench.engines) == 1 else f"{name}-{index + 1}"


def _start_sampler(bench: Bench, engine: ServerProcess, stem: str) -> Sampler:
    remote = f"{engine.setup.directory}/{stem}.jsonl"
    argv = pinned(
        engine.sampler([f"--interval-ms={bench.trial.sample_interval_ms}", f"--out={remote}"]),
        bench.sampler_cpus,
    )
    bench.trial.recorder.start(engine.host.name, f"sampler-{stem}", argv)
    return Sampler(engine, bench.start_helper(engine, f"sampler-{stem}", argv), stem, remote)


@dataclass
class NodesSampling:
    """The samplers of all engine nodes; `stop` returns the sum of their series, sample by sample."""

    bench: Bench
    samplers: Sequence[Sampler]

    def stop(self) -> list[Sample]:
        if self.bench.profiler is not None:
            self.bench.profiler.stop()
        per_node = []
        for sampler in self.samplers:
            host = sampler.engine.host
            self.bench.trial.recorder.stop(host.name, f"sampler-{sampler.stem}")
            ended = sampler.handle.stop(STOP_GRACE_S).status
            self.bench.forget(sampler.handle)
            local = self.bench.trial.directory / f"{sampler.stem}.jsonl"
            host.get_file(sampler.remote, local)
            if not ended.ok:
                self.bench.check_engines()
                output = f"{sampler.engine.setup.directory}/sampler-{sampler.stem}"
                why = (
                    error_text(log_tail(host, f"{output}.out"))
                    or log_tail(host, f"{output}.log")
                    or "no output"
                )
                text = f"the sampler of {sampler.engine.title} ended early ({ended}): {why}"
                raise ServerError(sampler.engine, text)
            per_node.append(parse_samples(local.read_text(encoding="utf-8"), local.name))
        return [add_nodes(instant) for instant in zip(*per_node, strict=False)]


PERF_STOP_GRACE_S = 20.0  # perf has to write its data
FIND_TIMEOUT_S = 20.0
_POLL_S = 0.02
_NAMING_TIMEOUT_S = 300.0
# The log of perf if its process ends while it begins; sometimes it says nothing.
_NO_PROCESS = "No such process"
_EMPTY_LOG = "its log is empty"


@dataclass(frozen=True)
class _Recording:
    """One perf process and its files."""

    host: Transport
    name: str  # name of the files in `directory`
    directory: str  # on the host
    pid: int  # of the process that is recorded
    handle: ProcessHandle
    counting: ProcessHandle
    recorded: bool

    @property
    def data(self) -> str:
        return f"{self.directory}/{self.name}.data"

    @property
    def counts(self) -> str:
        return f"{self.directory}/{self.name}-counters.csv"


@dataclass
class Profiler:
    """The recordings of one variant. Its owner must always call `abandon`."""

    trial: TrialContext
    _recordings: list[_Recording] = field(default_factory=list)
    _running: list[ProcessHandle] = field(default_factory=list)

    def start(
        self,
        host: Transport,
        directory: str,
        pid: int,
        *,
        name: str = "profile",
        cpus: str = "",
        recorded: bool = False,
    ) -> None:
        """Record the process `pid` and all its threads until `stop` or its end; files go to `directory` on its host.

        `recorded`: write the command to reproduce.sh too, which requires that the script knows the pid.
        """
        argv = pinned([*record_command(f"{directory}/{name}.data"), f"--pid={pid}"], cpus)
        if recorded:
            self.trial.recorder.start(host.name, name, argv)
        handle = self._start(host, directory, name, argv)
        counters = f"{name}-counters"
        argv = pinned(stat_command(pid, f"{directory}/{counters}.csv"), cpus)
        counting = self._start(host, directory, counters, argv)
        self._recordings.append(_Recording(host, name, directory, pid, handle, counting, recorded))

    def stop(self) -> None:
        """Stop recording. Raises TrialError if perf ended early, unless its process had ended before perf began."""
        for recording in tuple(self._recordings):
            if recording.handle not in self._running:
                continue
            if recording.recorded:
                self.trial.recorder.stop(recording.host.name, recording.name)
            recording.counting.signal(signal.SIGINT)  # the only signal at which perf stat writes
            ended = recording.handle.stop(PERF_STOP_GRACE_S)
            self._running.remove(recording.handle)
            self._stop_counting(recording)
            if ended.killed or not (ended.status.ok or ended.status.signal == signal.SIGTERM):
                self._require_ended(recording, ended.status)
            elif recording.host.exists(recording.data):
                continue
            self._recordings.remove(recording)  # perf had not begun

    def keep(self) -> dict[str, object]:
        """Write `profile.folded` and return facts about it.

        It is empty if the load ended before perf could take a sample: that does not impair what was measured.
        """
        profile = added(self._folded(recording) for recording in self._recordings)
        (self.trial.directory / PROFILE_FILE).write_text(profile.text(), encoding="utf-8")
        if not self._recordings:
            return {"samples": 0}
        first = self._recordings[0]
        return {
            "event": recorded_event(first.host, first.data),
            "frequency": FREQUENCY,
            "samples": profile.samples,
            "cut_short": any(
                is_full(recording.host, recording.data) for recording in self._recordings
            ),
            **({"counters": counters} if (counters := self._counters()) else {}),
        }

    def abandon(self, grace_s: float) -> None:
        """Stop all perf processes that still run."""
        try_each([partial(handle.stop, grace_s) for handle in self._running])
        self._running.clear()

    # -- internal

    def _require_ended(self, recording: _Recording, status: ExitStatus) -> None:
        """Raise TrialError if perf failed for another reason than that its process ended."""
        reason = _tail(recording, recording.name)
        alive = recording.host.exists(f"/proc/{recording.pid}")
        if alive or (reason and _NO_PROCESS not in reason):
            raise TrialError(
                f"perf on {recording.host.name} ended early ({status}): {reason or _EMPTY_LOG}"
            )

    def _stop_counting(self, recording: _Recording) -> None:
        try:
            recording.counting.wait(PERF_STOP_GRACE_S)
        except CommandTimeout:
            raise TrialError(
                f"perf stat on {recording.host.name} did not end within {PERF_STOP_GRACE_S:g} s"
            ) from None
        recording.counting.stop(0.0)  # removes the ended process from the host's process registry
        self._running.remove(recording.counting)

    def _counters(self) -> dict[str, float]:
        """Return the counted events; empty if perf could not count, for example without permission."""
        return added_counts(
            parse_stat(recording.host.read_text(recording.counts))
            if recording.host.exists(recording.counts)
            else {}
            for recording in self._recordings
        )

    def _folded(self, recording: _Recording) -> Folded:
        """Resolve the function names on the host, in a registered process, and return the folded stacks."""
        naming = f"{recording.name}-names"
        handle = self._start(
            recording.host, recording.directory, naming, script_command(recording.data)
        )
        try:
            status = handle.wait(_NAMING_TIMEOUT_S)
        except CommandTimeout:
            raise TrialError(
                f"perf on {recording.host.name} took more than {_NAMING_TIMEOUT_S:g} s to resolve function names"
            ) from None
        handle.stop(0.0)  # removes the ended process from the host's process registry
        self._running.remove(handle)
        if not status.ok:
            raise TrialError(
                f"perf on {recording.host.name} cannot resolve function names ({status}):"
                f" {_tail(recording, naming) or _EMPTY_LOG}"
            )
        local = self.trial.directory / f"{naming}.gz"
        return fetch_folded(recording.host, f"{recording.directory}/{naming}.txt", local)

    def _start(
        self, host: Transport, directory: str, name: str, argv: Sequence[str]
    ) -> ProcessHandle:
        return self.trial.start(host, argv, name, f"{directory}/{name}.txt", self._running)


def find_child(host: Transport, parent: ProcessHandle, environment: str) -> int | None:
    """Return the pid of the child of `parent` whose environment contains NAME=VALUE, or None.

    Waits for the child while the parent runs, at most FIND_TIMEOUT_S.
    """
    until = time.monotonic() + FIND_TIMEOUT_S
    while True:
        for child in _children(host, parent.pid):
            if environment in _read(host, f"/proc/{child}/environ").split("\0"):
                return child
        if parent.poll() is not None or time.monotonic() > until:
            return None
        time.sleep(_POLL_S)


def _children(host: Transport, pid: int) -> list[int]:
    return [int(word) for word in _read(host, f"/proc/{pid}/task/{pid}/children").split()]


def _read(host: Transport, path: str) -> str:
    """Read a file of /proc; return an empty text if the process has ended."""
    try:
        return host.read_text(path)
    except LinkLost:
        raise
    except HostError:
        return ""


def _tail(recording: _Recording, name: str) -> str:
    return log_tail(recording.host, f"{recording.directory}/{name}.log")
