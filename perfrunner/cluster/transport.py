"""What perfrunner asks of a host, whether it is this machine or one behind SSH.

Commands are argument lists; they are quoted in one place (perfrunner.cluster.shell) and never by a caller. Paths are
POSIX paths on the host; relative ones are relative to the host's work directory. Every method may raise HostError: the
link is gone, the host is full, a tool is missing. A transport may be used by several threads at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perfrunner.cluster.process import ProcessHandle
from perfrunner.errors import HostError

DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Completed:
    """A command that ended. `exit` is the shell's: 128 + n means that signal n ended it."""

    argv: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Raw:
    """A command's end, in bytes. `stdout` is empty when a sink took it."""

    exit: int
    stdout: bytes
    stderr: bytes


class CommandFailed(HostError):  # noqa: N818
    """A checked command ended with another status than 0."""

    def __init__(self, host: str, completed: Completed, hint: str | None = None) -> None:
        said = (completed.stderr.strip() or completed.stdout.strip())[-2000:]
        message = f"{host}: {completed.argv[0]} ended with status {completed.exit}"
        super().__init__(f"{message}: {said}" if said else message, hint)
        self.completed = completed


class CommandTimeout(HostError):  # noqa: N818
    """A command did not end in its time; it has been sent TERM, then KILL."""


class LinkLost(HostError):  # noqa: N818
    """The connection to the host broke; what runs there goes on until it is swept."""


class Transport(Protocol):
    """A way to one host. `name` is the host's name in the cluster file; messages carry it."""

    @property
    def name(self) -> str: ...

    @property
    def work_dir(self) -> str:
        """Absolute; created by open_host. Nothing outside it is ever removed."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
    ) -> Completed:
        """Run to the end, standard input empty. A time-out, an exception or a lost link ends the command too.

        Its environment is `env` and the base (perfrunner.cluster.environment), whatever the caller's holds.

        With `check` a status other than 0 raises CommandFailed. For megabytes of output let the command write
        a file and fetch that.
        """
        ...

    def follow(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """As `run` without `check`, but each line of its standard output goes to `on_line` as it comes."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        log_stdout: str,
        log_stderr: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        run_id: str = "",
    ) -> ProcessHandle:
        """Start a long-running process in a session of its own and note it in the host's ledger; `env` as in run.

        `name` is unique among the host's running processes: a second start under a name that still runs raises
        HostError. The process outlives this connection and perfrunner; Host.sweep finds it. The logs are appended.
        """
        ...

    def put_bytes(self, data: bytes, remote: str, *, mode: int = 0o644) -> None:
        """Write a file: to a temporary name, checked by sha256, then renamed over `remote`."""
        ...

    def put_file(self, local: Path, remote: str) -> bool:
        """Copy a file with its mode, as put_bytes does; False when the host had it already (same sha256)."""
        ...

    def put_tree(self, local: Path, remote: str) -> bool:
        """Copy a directory as one stream, verify every file, rename it into place; False when it was there.

        An incomplete or altered directory at `remote` is replaced. Never merges into what is there. Either way the
        directory's time is that of this call.
        """
        ...

    def get_file(self, remote: str, local: Path) -> None:
        """Fetch what the file holds now, checked by sha256; `local` appears complete or not at all."""
        ...

    def get_tree(self, remote: str, local: Path) -> None:
        """Fetch a directory of plain files into `local`, an empty directory. The caller checks what arrived."""
        ...

    def read_text(self, path: str) -> str:
        """A small file (also of /proc and /sys), as UTF-8."""
        ...

    def exists(self, path: str) -> bool: ...

    def makedirs(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None:
        """Remove a file or directory below the work directory; HostError for anything else. Absent is fine."""
        ...

    def close(self) -> None:
        """Drop the connection. Started processes go on."""
        ...
