"""Define commands and processes on a host: their environment, output, exit status and handle."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perfrunner.errors import HostError

DEFAULT_TIMEOUT_S = 60.0  # of a command
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BASE_ENVIRONMENT: Mapping[str, str] = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def whole_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the complete environment of a program that is started with `given`, which overrides the base."""
    return {**BASE_ENVIRONMENT, **given}


def with_environment(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> list[str]:
    """Return `env -i -C DIR K=V... ARGV`: nothing is inherited, and no shell sees the values, so none needs quoting."""
    if not argv or "=" in argv[0]:
        raise ValueError(f"not a command: {list(argv)!r}")
    if any("\0" in word for word in argv):
        raise ValueError("an argument holds a NUL byte")
    prefix = ["-i", *(["-C", cwd] if cwd else [])]
    for key, value in whole_environment(env or {}).items():
        if not _ENV_NAME.fullmatch(key) or "\0" in value:
            raise ValueError(f"not an environment variable: {key!r}")
        prefix.append(f"{key}={value}")
    return ["env", *prefix, *argv]


def foreign_variables(environ: str, given: Mapping[str, str]) -> list[str]:
    """Return the variables in the text of /proc/PID/environ that differ from `whole_environment(given)`."""
    seen = dict(entry.partition("=")[::2] for entry in environ.split("\0") if entry)
    expected = whole_environment(given)
    return sorted(
        name for name in {*seen, *expected} if seen.get(name, "\0") != expected.get(name, "\0")
    )


def clean_prefix() -> Sequence[str]:
    """Return the prefix `env -i ...` that gives a command the base environment only."""
    return ["env", "-i", *(f"{key}={value}" for key, value in BASE_ENVIRONMENT.items())]


@dataclass(frozen=True)
class Completed:
    """A command that has ended. `exit` is a shell's exit status: 128 + n means that signal n ended the command."""

    argv: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Raw:
    """The result of a command, as bytes. `stdout` is empty when a sink received the output."""

    exit: int
    stdout: bytes
    stderr: bytes


class CommandFailed(HostError):  # noqa: N818
    """Raised when a checked command ends with a status other than 0."""

    def __init__(self, host: str, completed: Completed, hint: str | None = None) -> None:
        output = (completed.stderr.strip() or completed.stdout.strip())[-2000:]
        message = f"{host}: {completed.argv[0]} ended with status {completed.exit}"
        super().__init__(f"{message}: {output}" if output else message, hint)
        self.completed = completed


class CommandTimeout(HostError):  # noqa: N818
    """Raised when a command does not end in time. It has been sent TERM, then KILL."""


class LinkLost(HostError):  # noqa: N818
    """Raised when the connection to the host is lost. Started processes keep running until `Host.sweep` stops them."""


MOST_OUTPUT = 64_000_000  # bytes of one command's output that are held in memory


class OutputBuffer:
    """The output of one command, in memory.

    Raises HostError beyond MOST_OUTPUT bytes, so that a command that never stops cannot take all of our memory.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._chunks: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Append a chunk."""
        self._size += len(chunk)
        if self._size > MOST_OUTPUT:
            raise HostError(
                f"{self._host}: a command was stopped: it printed more than {MOST_OUTPUT / 1e6:g} MB"
            )
        self._chunks.append(chunk)

    def whole(self) -> bytes:
        """Return everything that was appended."""
        return b"".join(self._chunks)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=+-]{0,150}")  # the name of a process and of its files


@dataclass(frozen=True)
class ProcessId:
    """The identity of a process. `start_time` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    pid: int
    start_time: int
    boot_id: str


@dataclass(frozen=True)
class ExitStatus:
    """The end of a process: by `code` or by `signal`. Both are None if it is unknown, after a restart of the host."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def from_shell(cls, status: int) -> ExitStatus:
        """Convert a shell's `$?`, where 128 + n is signal n."""
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
        return "ended without a recorded status (the host restarted, or the process that waits for it was killed)"


@dataclass(frozen=True)
class StopResult:
    """The result of stopping a process.

    `killed`: it did not end within the grace time. `orphans`: pids that left its process group and are still running.
    """

    status: ExitStatus
    killed: bool
    orphans: tuple[int, ...] = ()


class ProcessHandle(Protocol):
    """A handle to a process on a host.

    Any perfrunner process can use it: Host.processes() rebuilds handles from the host's process registry.
    """

    @property
    def pid(self) -> int:
        """The pid of the program itself (not of a wrapper), as /proc and `kvctl sample --pid` need it."""
        ...

    def poll(self) -> ExitStatus | None:
        """Return the exit status; None while the process runs."""
        ...

    def wait(self, timeout: float) -> ExitStatus:
        """Wait for the end of the process.

        Raises CommandTimeout (a HostError) after `timeout` seconds; the process keeps running then.
        """
        ...

    def signal(self, signum: int) -> bool:
        """Send a signal to the process group; return False when the process has ended."""
        ...

    def stop(self, grace_s: float = 10.0) -> StopResult:
        """Send TERM to the process group, KILL after `grace_s`, then remove the process registry entry.

        Harmless when the process has ended.
        """
        ...
