"""perf at the processes of one arm while it is loaded: processes of the hosts' ledgers, as samplers are.

`start` for each process when the load begins, `stop` when it has ended, `keep` when nothing is measured any more: perf
names the functions on the host, the stacks are folded here and kept as `profile.folded` with the trial.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perfrunner.cluster.process import ProcessHandle
from perfrunner.cluster.transport import CommandTimeout, LinkLost, Transport
from perfrunner.errors import HostError, TrialError
from perfrunner.measure.folded import Folded, added
from perfrunner.measure.perf import (
    FREQUENCY,
    fetch_folded,
    is_full,
    record_command,
    recorded_event,
    script_command,
)
from perfrunner.results.profiles import PROFILE_FILE
from perfrunner.run.trial.leaving import try_each
from perfrunner.run.trial.pinning import pinned
from perfrunner.run.trial.reproduce import ArmRecorder

STOP_GRACE_S = 20.0  # perf writes what it has
FIND_TIMEOUT_S = 20.0
_POLL_S = 0.02
_NAMING_TIMEOUT_S = 300.0
_LOG_TAIL = 3


@dataclass(frozen=True)
class _Recording:
    host: Transport
    name: str  # of its files in `directory`
    directory: str  # on the host
    handle: ProcessHandle
    recorded: bool

    @property
    def data(self) -> str:
        return f"{self.directory}/{self.name}.data"


@dataclass
class Profiler:
    """One arm's recordings. Whoever holds it must call `abandon`, whatever happens in between."""

    directory: Path  # of the trial, on this machine
    recorder: ArmRecorder
    run_id: str
    shield: Callable[[], AbstractContextManager[None]]  # around starting a process and noting it
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
        """Record the process `pid` and all its threads, in `directory` on its host, until `stop` or its end.

        `recorded`: reproduce.sh does the same; it has to know the pid, as it does an engine's.
        """
        argv = pinned([*record_command(f"{directory}/{name}.data"), f"--pid={pid}"], cpus)
        if recorded:
            self.recorder.start(host.name, name, argv)
        handle = self._start(host, directory, name, argv)
        self._recordings.append(_Recording(host, name, directory, handle, recorded))

    def stop(self) -> None:
        """TrialError when perf did not last until now."""
        for one in self._recordings:
            if one.handle not in self._running:
                continue
            if one.recorded:
                self.recorder.stop(one.host.name, one.name)
            ended = one.handle.stop(STOP_GRACE_S)
            self._running.remove(one.handle)
            if ended.killed or not (ended.status.ok or ended.status.signal == signal.SIGTERM):
                raise TrialError(
                    f"perf on {one.host.name} did not record to the end ({ended.status}):"
                    f" {_tail(one, one.name)}"
                )

    def keep(self) -> dict[str, object]:
        """Write `profile.folded`, and say how it was taken. TrialError when there is no sample."""
        profile = added(self._folded(one) for one in self._recordings)
        if not profile.samples:
            raise TrialError("perf saw no sample: the process was not there, or used no CPU")
        (self.directory / PROFILE_FILE).write_text(profile.text(), encoding="utf-8")
        first = self._recordings[0]
        return {
            "event": recorded_event(first.host, first.data),
            "frequency": FREQUENCY,
            "samples": profile.samples,
            "cut_short": any(is_full(one.host, one.data) for one in self._recordings),
        }

    def abandon(self, grace_s: float) -> None:
        """End what still runs; harmless when nothing does."""
        try_each([partial(handle.stop, grace_s) for handle in self._running])
        self._running.clear()

    # -- inside

    def _folded(self, one: _Recording) -> Folded:
        """Named on the host by a process of the ledger, which ends with the trial if it takes too long."""
        naming = f"{one.name}-names"
        handle = self._start(one.host, one.directory, naming, script_command(one.data))
        try:
            status = handle.wait(_NAMING_TIMEOUT_S)
        except CommandTimeout:
            raise TrialError(
                f"perf on {one.host.name} took more than {_NAMING_TIMEOUT_S:g} s to name the functions"
            ) from None
        handle.stop(0.0)  # it has ended: this takes it out of the host's ledger
        self._running.remove(handle)
        if not status.ok:
            raise TrialError(
                f"perf on {one.host.name} cannot name the functions ({status}): {_tail(one, naming)}"
            )
        kept = self.directory / f"{naming}.gz"
        return fetch_folded(one.host, f"{one.directory}/{naming}.txt", kept)

    def _start(
        self, host: Transport, directory: str, name: str, argv: Sequence[str]
    ) -> ProcessHandle:
        with self.shield():
            handle = host.start(
                argv,
                name=self.recorder.job(name),
                log_stdout=f"{directory}/{name}.txt",
                log_stderr=f"{directory}/{name}.log",
                cwd=directory,
                run_id=self.run_id,
            )
            self._running.append(handle)
        return handle


def find_child(host: Transport, parent: ProcessHandle, environment: str) -> int | None:
    """The pid of the child of `parent` that was started with `environment` (NAME=VALUE); None when it is not there.

    Waits for it as long as the parent runs, FIND_TIMEOUT_S at most.
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
    """Empty when the process has ended meanwhile."""
    try:
        return host.read_text(path)
    except LinkLost:
        raise
    except HostError:
        return ""


def _tail(one: _Recording, name: str) -> str:
    log = f"{one.directory}/{name}.log"
    said = one.host.run(["tail", "-n", str(_LOG_TAIL), log], check=False).stdout
    return " | ".join(line.strip() for line in said.splitlines())[-400:] or "it does not say why"
