"""Write and read the journal of a run: its events in order, one JSON object per line, appended and fsynced.

The store defines which trials count; the journal records what happened when. If a kill interrupts a write, the last
line is torn: readers ignore it, and the next append starts a new line.
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
ENDS = (
    "finished",
    "failed",
)  # events; `failed` has the fields error and host (whether a host failed)
PROGRESS = "progress"  # event: seconds_left (or null), trials_finished, trials_total


class Journal:
    """An append-only journal, owned by the process that holds the directory's lock. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)
        self._end_torn_line()

    def append(self, event: str, /, **fields: object) -> None:
        """Append one line; it is durable on return. Raises OSError."""
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
    """Return all complete records; torn lines, which a kill leaves, are skipped."""
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
    """Return the record of the trial that was started but did not end, because the run was killed."""
    open_trial: Mapping[str, Any] | None = None
    for record in records:
        if record["event"] == "trial-started":
            open_trial = record
        elif record["event"] in ("trial-finished", "interrupted"):
            open_trial = None
    return open_trial
