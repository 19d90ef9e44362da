"""What happened in a run, in order: one JSON object a line, appended and fsynced.

The store says which trials count; the journal says what was going on when. It survives anything: a kill in the
middle of a write leaves a torn last line, which reading ignores and the next append starts a new line after.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfrunner.errors import StoreError

FILE = "journal.jsonl"  # in the experiment's directory
ENDS = ("finished", "failed")  # events; failed: error, and whether it was a host's (host)
PROGRESS = "progress"  # event: seconds_left (or null), trials_finished, trials_total


class Journal:
    """Append-only. Owned by one process (the directory's lock holder); not for several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)
        self._end_torn_line()

    def append(self, event: str, /, **fields: object) -> None:
        """One whole line or an OSError; durable when it returns."""
        record = {"at": round(time.time(), 3), "event": event, **fields}
        line = json.dumps(record, separators=(",", ":"), default=str) + "\n"
        data = line.encode()
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _end_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")


def read_journal(path: Path) -> list[Mapping[str, Any]]:
    """Every whole record; torn lines (each the trace of a kill) are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot read the journal {path}: {error.strerror}") from error
    records: list[Mapping[str, Any]] = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "event" in record:
            records.append(record)
    return records


def trial_in_flight(records: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The trial that was started and never ended: the one a kill cost."""
    open_trial: Mapping[str, Any] | None = None
    for record in records:
        if record["event"] == "trial-started":
            open_trial = record
        elif record["event"] in ("trial-finished", "interrupted"):
            open_trial = None
    return open_trial
