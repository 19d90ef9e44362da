"""Read the process registry of a host: `<work_dir>/registry/<name>.{json,lock,status}`.

The process itself writes its entry (.json) just before it becomes the program. The lock is held for as long as the
process or any of its descendants lives. The status appears when the process has ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perfrunner.errors import HostError
from perfrunner.hosts import scripts
from perfrunner.hosts.process import (
    DEFAULT_TIMEOUT_S,
    NAME,
    CommandTimeout,
    ExitStatus,
    ProcessId,
    Raw,
    StopResult,
)

_BOOT_ID = re.compile(r"[0-9a-f-]{36}")
_KILL_ALLOWANCE_S = 10.0  # after the grace: KILL, the status, the lock


@dataclass(frozen=True)
class RegistryEntry:
    """The entry of one started process. `started_at` is by the controller's clock; `stderr` is its log on the host."""

    name: str
    run_id: str
    argv: tuple[str, ...]
    started_at: float
    stderr: str
    id: ProcessId

    @classmethod
    def parse(cls, text: str) -> RegistryEntry:
        """Parse an entry. Raises ValueError, KeyError or TypeError for a text that perfrunner did not write."""
        fields = json.loads(text)
        pid, start_time, boot_id = int(fields["pid"]), int(fields["start_time"]), fields["boot_id"]
        if not NAME.fullmatch(fields["name"]) or not _BOOT_ID.fullmatch(boot_id):
            raise ValueError(f"an entry of name {fields['name']!r}")
        # To kill(2), 0, 1 and negative numbers mean more than one process.
        if pid < 2 or start_time < 0:
            raise ValueError(f"an entry of pid {pid}")
        return cls(
            name=fields["name"],
            run_id=str(fields["run_id"]),
            argv=tuple(map(str, fields["argv"])),
            started_at=float(fields["started_at"]),
            stderr=str(fields["stderr"]),
            id=ProcessId(pid, start_time, boot_id),
        )


class RegistryKeeper(Protocol):
    """The part of a transport that a Process needs."""

    @property
    def name(self) -> str: ...

    def registry_script(
        self, script: str, entry: RegistryEntry, *arguments: str, timeout: float
    ) -> Raw:
        """Run one of the programs that take a process identity as their first arguments (perfrunner.hosts.scripts)."""
        ...


class Process:
    """A ProcessHandle of the registry. Its only state is the exit status, once it is known."""

    def __init__(self, transport: RegistryKeeper, entry: RegistryEntry) -> None:
        self._transport = transport
        self.entry = entry
        self._ended: ExitStatus | None = None

    def __repr__(self) -> str:
        return f"<{self.name} pid {self.pid} on {self._transport.name}>"

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def run_id(self) -> str:
        return self.entry.run_id

    @property
    def pid(self) -> int:
        return self.entry.id.pid

    def poll(self) -> ExitStatus | None:
        if self._ended is None:
            self._ended = _status(self._run(scripts.POLL).stdout.decode().split())
        return self._ended

    def wait(self, timeout: float) -> ExitStatus:
        if self._ended is None:
            raw = self._run(scripts.WAIT, f"{timeout:.2f}", timeout=timeout + DEFAULT_TIMEOUT_S)
            self._ended = _status(raw.stdout.decode().split())
        if self._ended is None:
            raise CommandTimeout(
                f"{self._transport.name}: {self.name} has not ended within {timeout:g} s"
            )
        return self._ended

    def signal(self, signum: int) -> bool:
        return self._ended is None and self._run(scripts.SIGNAL, str(signum)).exit == 0

    def stop(self, grace_s: float = 10.0) -> StopResult:
        raw = self._run(
            scripts.STOP,
            str(round(grace_s * 100)),
            timeout=grace_s + _KILL_ALLOWANCE_S + DEFAULT_TIMEOUT_S,
        )
        lines = raw.stdout.decode().splitlines()
        if len(lines) != 3:
            reason = raw.stderr.decode(errors="replace").strip()
            raise HostError(f"{self._transport.name}: cannot stop {self.name}: {reason}")
        status = self._ended or _status(lines[:1]) or ExitStatus()
        self._ended = status
        return StopResult(status, lines[1] == "1", tuple(int(pid) for pid in lines[2].split()))

    def _run(self, script: str, *arguments: str, timeout: float = DEFAULT_TIMEOUT_S) -> Raw:
        return self._transport.registry_script(script, self.entry, *arguments, timeout=timeout)


def _status(answer: Sequence[str]) -> ExitStatus | None:
    if answer == ["running"]:
        return None
    if answer == ["lost"]:
        return ExitStatus()
    if len(answer) == 1 and answer[0].isdigit():
        return ExitStatus.from_shell(int(answer[0]))
    raise HostError(f"unexpected answer of the process registry: {' '.join(answer)!r}")
