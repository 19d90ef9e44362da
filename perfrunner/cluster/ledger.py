"""What a host remembers of the processes started on it: `<work_dir>/ledger/<name>.{json,lock,status}`.

The entry (.json) is written by the process itself just before it becomes the program; the lock is held for as long
as it or anything that it started lives; the status appears when it has ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perfrunner.cluster import scripts
from perfrunner.cluster.process import NAME, ExitStatus, ProcessId, StopResult
from perfrunner.cluster.transport import DEFAULT_TIMEOUT_S, CommandTimeout, Raw
from perfrunner.errors import HostError

_BOOT_ID = re.compile(r"[0-9a-f-]{36}")
_KILL_ALLOWANCE_S = 10.0  # after the grace: KILL, the status, the lock


@dataclass(frozen=True)
class LedgerEntry:
    """One started process. `started_at` is the controller's clock; `stderr` its log on the host."""

    name: str
    run_id: str
    argv: tuple[str, ...]
    started_at: float
    stderr: str
    id: ProcessId

    @classmethod
    def parse(cls, text: str) -> LedgerEntry:
        """ValueError, KeyError or TypeError for a text that no process of ours has written."""
        fields = json.loads(text)
        pid, start_time, boot_id = int(fields["pid"]), int(fields["start_time"]), fields["boot_id"]
        if not NAME.fullmatch(fields["name"]) or not _BOOT_ID.fullmatch(boot_id):
            raise ValueError(f"an entry of name {fields['name']!r}")
        if (
            pid < 2 or start_time < 0
        ):  # 0, 1 and negative numbers mean more than one process to kill(2)
            raise ValueError(f"an entry of pid {pid}")
        return cls(
            name=fields["name"],
            run_id=str(fields["run_id"]),
            argv=tuple(map(str, fields["argv"])),
            started_at=float(fields["started_at"]),
            stderr=str(fields["stderr"]),
            id=ProcessId(pid, start_time, boot_id),
        )


class LedgerKeeper(Protocol):
    """What a Process asks of the host that it was started on."""

    @property
    def name(self) -> str: ...

    def ledger_script(
        self, script: str, entry: LedgerEntry, *arguments: str, timeout: float
    ) -> Raw:
        """Run one of the programs that take an identity first (perfrunner.cluster.scripts)."""
        ...


class Process:
    """A ProcessHandle: stateless but for its end, which is remembered once it is known."""

    def __init__(self, transport: LedgerKeeper, entry: LedgerEntry) -> None:
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

    @property
    def start_time(self) -> int:
        return self.entry.id.start_time

    @property
    def boot_id(self) -> str:
        return self.entry.id.boot_id

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
            said = raw.stderr.decode(errors="replace").strip()
            raise HostError(f"{self._transport.name}: {self.name} cannot be stopped: {said}")
        status = self._ended or _status(lines[:1]) or ExitStatus()
        self._ended = status
        return StopResult(status, lines[1] == "1", tuple(int(pid) for pid in lines[2].split()))

    def _run(self, script: str, *arguments: str, timeout: float = DEFAULT_TIMEOUT_S) -> Raw:
        return self._transport.ledger_script(script, self.entry, *arguments, timeout=timeout)


def _status(words: Sequence[str]) -> ExitStatus | None:
    if words == ["running"]:
        return None
    if words == ["lost"]:
        return ExitStatus()
    if len(words) == 1 and words[0].isdigit():
        return ExitStatus.from_shell(int(words[0]))
    raise HostError(f"the ledger answered {' '.join(words)!r}")
