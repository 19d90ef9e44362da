"""A process that perfrunner started on a host: who it is, whether it lives, how it ended.

Identity is pid + start time + boot id, so that a number used again by a stranger is never signalled.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Protocol

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=+-]{0,150}")  # of a process: also of files


@dataclass(frozen=True)
class ProcessId:
    """`start_time` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    pid: int
    start_time: int
    boot_id: str


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended: by `code`, by `signal`, or (both None) unknown: the host restarted under it."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def from_shell(cls, status: int) -> ExitStatus:
        """From `$?`: 128 + n is signal n."""
        if 128 < status <= 128 + signal.NSIG:
            return cls(signal=status - 128)
        return cls(code=status)

    @property
    def ok(self) -> bool:
        return self.code == 0

    def __str__(self) -> str:
        if self.code is not None:
            return f"exit {self.code}"
        if self.signal is not None:
            try:
                return f"killed by {signal.Signals(self.signal).name}"
            except ValueError:
                return f"killed by signal {self.signal}"
        return "ended without a recorded status (the host restarted, or its keeper was killed)"


@dataclass(frozen=True)
class StopResult:
    """`killed`: it did not end within the grace time. `orphans`: pids that left its process group and still run."""

    status: ExitStatus
    killed: bool
    orphans: tuple[int, ...] = ()


class ProcessHandle(Protocol):
    """Valid from any perfrunner process: Host.processes() rebuilds handles from the host's ledger."""

    @property
    def name(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def pid(self) -> int:
        """Of the program itself (not of a wrapper): what /proc and `kvctl sample --pid` want."""
        ...

    @property
    def start_time(self) -> int: ...

    @property
    def boot_id(self) -> str: ...

    def poll(self) -> ExitStatus | None:
        """None while it runs."""
        ...

    def wait(self, timeout: float) -> ExitStatus:
        """Its end, or CommandTimeout (a HostError) after `timeout` seconds; it goes on running then."""
        ...

    def signal(self, signum: int) -> bool:
        """Send a signal to its process group; False when it has ended."""
        ...

    def stop(self, grace_s: float = 10.0) -> StopResult:
        """TERM to its process group, KILL after `grace_s`; then its ledger entry goes. Harmless when it has ended."""
        ...
