"""Count the engine's user instructions per operation, an exact number next to the measured time.

    count = count_instructions(transport, engine, load, directory=..., ops=400_000)
    count.per_op, count.method, count.blind_to

A change of a tenth of a per cent is visible in one count, where times need dozens of blocks. But instructions
are not time; BLIND lists what a count does not include. There are two methods, and the first that the host
offers is used:

  counters   the processor's counters, read by `perf stat` on the engine during the load. Many virtual machines have
             none.
  callgrind  the engine under valgrind, which simulates it instruction by instruction on one CPU. Two fresh engines
             run the same populate phase, then `ops` and 2 * `ops` operations; the difference excludes start-up,
             populating and shutdown. Threads run alternately. `front_end_per_op` covers the front-end threads only,
             because background threads work by the clock, which valgrind stretches about fifty times.

The load tool runs on the engine's own host and drives a fixed number of operations. One thread with one
connection repeats best, because each batch is then read in one piece.
"""

from __future__ import annotations

import contextlib
import math
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from perfrunner.errors import HostError, TrialError
from perfrunner.measure.client import parse_report

if TYPE_CHECKING:
    from perfrunner.hosts.process import ProcessHandle
    from perfrunner.hosts.transport import Transport

Method = Literal["counters", "callgrind"]

BLIND: Mapping[Method, tuple[str, ...]] = {
    "counters": ("the kernel", "waiting: caches, TLB, branches, locks"),
    "callgrind": (
        "the kernel",
        "waiting: caches, TLB, branches, locks",
        "contention: threads run alternately on one CPU",
        "code selected by CPU features or CPU number, for which valgrind reports other values",
    ),
}
DEFAULT_OPS = 400_000
SETTLE_S = 3.0  # after populating, because a task that runs once a second resizes hash tables
_FRONT_END = "runRequests"  # the function that only front-end threads call
_READY_POLL_S = 0.05
_STOP_GRACE_S = 120.0
_SLOW_ANSWER_S = 600  # time-out of an operation; valgrind slows the server down about fifty times
_NAME = "counted"
_EVENT = "instructions:u"


@dataclass(frozen=True)
class CountedEngine:
    """The engine to count.

    `artifact` is the result of Host.deploy. `arguments` are those of kv_engine, without address and files;
    users are not needed. `tools` is the artifact of the load generator.
    """

    artifact: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    tools: str


@dataclass(frozen=True)
class CountedLoad:
    """The arguments of pillowfight, without address, duration and number of operations."""

    populate: Sequence[str]
    access: Sequence[str]


@dataclass(frozen=True)
class Instructions:
    """A count. `front_end_per_op` covers the front-end threads only; None if the method cannot separate threads."""

    per_op: float
    front_end_per_op: float | None
    method: Method
    ops: int

    @property
    def blind_to(self) -> tuple[str, ...]:
        """The costs that the count does not include."""
        return BLIND[self.method]


@dataclass(frozen=True)
class ThreadCount:
    """The instructions that one thread executed, as counted by callgrind."""

    thread: int
    instructions: int
    front_end: bool


def count_instructions(
    transport: Transport,
    engine: CountedEngine,
    load: CountedLoad,
    *,
    directory: str,
    ops: int = DEFAULT_OPS,
    method: Method | None = None,
    timeout_s: float = 900.0,
) -> Instructions:
    """Count by `method`, or by the first method that the host offers.

    `directory` (below the work directory) is created and removed. Raises TrialError if no method is
    available, if the engine or the load fails, or if the time is up; HostError if the host fails.
    """
    if ops < 1:
        raise ValueError(f"expected a positive number of operations, got {ops}")
    chosen = method or offered(transport)
    deadline = time.monotonic() + timeout_s
    directory = posixpath.join(transport.work_dir, directory)
    run = _Run(transport, engine, load, directory, deadline)
    try:
        if chosen == "counters":
            return Instructions(run.by_counters(ops) / ops, None, chosen, ops)
        less, more = run.by_callgrind(ops), run.by_callgrind(2 * ops)
    finally:
        with contextlib.suppress(HostError):
            transport.remove_tree(directory)
    return difference(less, more, ops)


def offered(transport: Transport) -> Method:
    """Return the best method of a host. Raises TrialError if it has none."""
    with contextlib.suppress(HostError):
        done = transport.run(["perf", "stat", "-x,", "-e", _EVENT, "true"], check=False)
        if done.exit == 0:
            with contextlib.suppress(TrialError):
                parse_perf(done.stderr)
                return "counters"
    with contextlib.suppress(HostError):
        if transport.run(["valgrind", "--version"], check=False).exit == 0:
            return "callgrind"
    raise TrialError(
        f"{transport.name} cannot count instructions: it has neither hardware counters nor valgrind",
        hint="apt-get install valgrind",
    )


def difference(less: Sequence[ThreadCount], more: Sequence[ThreadCount], ops: int) -> Instructions:
    """Return the instructions per operation from two runs, of which the second had `ops` operations more."""
    if not any(count.front_end for count in (*less, *more)):
        raise TrialError(
            "callgrind found no front-end thread; is the engine stripped of its symbols?"
        )
    per_op = (_total(more) - _total(less)) / ops
    front_end = (_total(more, front_end=True) - _total(less, front_end=True)) / ops
    if not 0 < front_end <= per_op * 1.01:
        raise TrialError(
            f"inconsistent counts: {per_op:g} instructions per operation, {front_end:g} in front-end threads"
        )
    return Instructions(per_op, front_end, "callgrind", ops)


def parse_perf(text: str) -> int:
    """Return the count in the output of `perf stat -x,`.

    Raises TrialError if nothing was counted, or only part of the time.
    """
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) < 5 or not fields[2].startswith("instructions"):
            continue
        if not fields[0].isdigit():
            raise TrialError(f"perf could not count instructions: {fields[0]}")
        if fields[4] and not math.isclose(float(fields[4]), 100.0):
            raise TrialError(
                f"perf counted only {fields[4]} % of the time: the counters are in use"
            )
        return int(fields[0])
    raise TrialError(f"perf counted no instructions: {text.strip()[-300:]}")


def parse_callgrind(text: str) -> list[ThreadCount]:
    """Return the counts of threads in the output of `_GREP`.

    For each file it has its `thread:`, its `totals:`, and names of our functions.
    """
    files: dict[str, dict[str, int]] = {}
    front_ends: set[str] = set()
    for line in text.splitlines():
        if match := re.fullmatch(r"(.+?):(thread|totals): (\d+)", line):
            files.setdefault(match[1], {})[match[2]] = int(match[3])
        elif line.endswith(f":{_FRONT_END}"):
            front_ends.add(line.removesuffix(f":{_FRONT_END}"))
    counts = [
        ThreadCount(fields["thread"], fields["totals"], file in front_ends)
        for file, fields in sorted(files.items())
        if fields.keys() == {"thread", "totals"}
    ]
    if not counts:
        raise TrialError("callgrind wrote no counts")
    return counts


# callgrind writes each name once per file, so this finds few lines.
_GREP = ("grep", "-rEo", "^(thread|totals): [0-9]+|" + _FRONT_END)


def _total(counts: Sequence[ThreadCount], *, front_end: bool = False) -> int:
    return sum(count.instructions for count in counts if count.front_end or not front_end)


@dataclass(frozen=True)
class _Run:
    """Fresh engines under load, one after the other."""

    transport: Transport
    engine: CountedEngine
    load: CountedLoad
    directory: str
    deadline: float

    def by_counters(self, ops: int) -> int:
        """Count with `perf stat`, which counts the engine for as long as the load runs."""
        output = f"{self.directory}/perf.csv"
        with self._engine([]) as (process, port):
            self._populate(process, port)
            perf = ["perf", "stat", "-x,", "-e", _EVENT, "-p", str(process.pid), "-o", output, "--"]
            self._access(process, port, ops, perf)
            return parse_perf(self.transport.read_text(output))

    def by_callgrind(self, ops: int) -> list[ThreadCount]:
        counts = f"{self.directory}/callgrind"
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            "--quiet",
            "--separate-threads=yes",
            f"--callgrind-out-file={counts}/out",
        ]
        with self._engine(valgrind, counts) as (process, port):
            self._populate(process, port)
            self._access(process, port, ops, [])
        return parse_callgrind(self.transport.run([*_GREP, counts]).stdout)

    @contextlib.contextmanager
    def _engine(
        self, wrapper: Sequence[str], *directories: str
    ) -> Iterator[tuple[ProcessHandle, int]]:
        """Start a fresh engine. It is stopped cleanly after the body, or at once on an error."""
        directory = self.directory
        self.transport.remove_tree(directory)
        for name in (f"{directory}/data", *directories):
            self.transport.makedirs(name)
        process = self.transport.start(
            [
                *wrapper,
                f"{self.engine.artifact}/bin/kv_engine",
                "--host=127.0.0.1",
                "--port=0",
                f"--port-file={directory}/port",
                f"--data-dir={directory}/data",
                *self.engine.arguments,
            ],
            name=_NAME,
            log_stdout=f"{directory}/out",
            log_stderr=f"{directory}/log",
            env=self.engine.env,
            cwd=directory,
        )
        try:
            yield process, self._port(process)
        except BaseException:
            with contextlib.suppress(HostError):
                process.stop(2.0)
            raise
        stopped = process.stop(_STOP_GRACE_S)
        if stopped.killed or not stopped.status.ok:
            raise TrialError(
                f"the counted engine did not stop cleanly ({stopped.status}){self._log()}"
            )

    def _port(self, process: ProcessHandle) -> int:
        path = f"{self.directory}/port"
        while True:
            if (ended := process.poll()) is not None:
                raise TrialError(f"the counted engine did not start ({ended}){self._log()}")
            if self.transport.exists(path):
                text = self.transport.read_text(path).strip()
                if text.isdigit():
                    return int(text)
            self._left("the counted engine to start")
            time.sleep(_READY_POLL_S)

    def _populate(self, process: ProcessHandle, port: int) -> None:
        self._pillowfight(process, port, [*self.load.populate, "--populate-only"], [])
        time.sleep(SETTLE_S)

    def _access(self, process: ProcessHandle, port: int, ops: int, wrapper: Sequence[str]) -> None:
        arguments = [*self.load.access, "--no-population", f"--num-ops={ops}"]
        text = self._pillowfight(process, port, arguments, wrapper)
        phase = parse_report(text, "the counted load").drive
        if phase is None or phase.ops != ops or phase.error_count:
            raise TrialError(
                f"the load completed {phase and phase.ops} of {ops} operations, or had errors"
            )

    def _pillowfight(
        self, process: ProcessHandle, port: int, arguments: Sequence[str], wrapper: Sequence[str]
    ) -> str:
        done = self.transport.run(
            [
                *wrapper,
                f"{self.engine.tools}/bin/pillowfight",
                "--host=127.0.0.1",
                f"--port={port}",
                f"--op-timeout={_SLOW_ANSWER_S}",
                *arguments,
            ],
            timeout=self._left("the load"),
            check=False,
        )
        if done.exit != 0:
            ended = process.poll()
            reason = (done.stderr.strip() or done.stdout.strip())[-500:]
            raise TrialError(
                f"the counted engine died ({ended}){self._log()}"
                if ended is not None
                else f"the load ended with status {done.exit}: {reason}"
            )
        return done.stdout

    def _left(self, what: str) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TrialError(f"counting instructions: no time left for {what}")
        return left

    def _log(self) -> str:
        with contextlib.suppress(HostError):
            lines = self.transport.read_text(f"{self.directory}/log").strip().splitlines()
            return f": {' | '.join(lines[-3:])[-500:]}"
        return ""
