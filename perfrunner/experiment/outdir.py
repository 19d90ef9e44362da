"""Keep the results directory: its lock, the journal of a run, and a clear error when its disk is full.

The store defines which trials count; the journal records what happened when: events in order, one JSON object per line,
appended and fsynced. If a kill interrupts a write, the last line is torn: readers ignore it, and the next append starts
a new line.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from perfrunner.errors import DISK_BROKEN, IN_USE, StoreError, UsageError, is_full
from perfrunner.paths import lock
from perfrunner.results.files import LOCK_FILE

LOOKS, LOOK_S = 5, 0.02
_SQLITE_FULL = "database or disk is full"


def disk_is_full(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, is a full disk, an exceeded quota or a file-size limit."""
    return any(
        (isinstance(cause, OSError) and is_full(cause)) or _SQLITE_FULL in str(cause)
        for cause in _causes(error)
    )


def disk_fails(error: BaseException) -> str | None:
    """Return what is wrong with a disk if that caused an error: it is full, read-only or broken; else None."""
    if disk_is_full(error):
        return "is full"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in DISK_BROKEN:
            return f"cannot be written ({cause.strerror})"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


class OutDirLock:
    """The lock of a results directory, as a context manager.

    Raises UsageError, with the pid of the owner, if another run uses the directory.
    """

    def __init__(self, out_dir: Path) -> None:
        self._path = out_dir / LOCK_FILE
        self._fd: int | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            locked = _locked(fd, self._path)
        except OSError as error:
            raise UsageError(
                f"cannot use {self._path.parent} for results: {error.strerror}",
                "choose a directory on a local disk with --out",
            ) from error
        if not locked:
            holder = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise UsageError(
                f"{self._path.parent} {IN_USE} another run (pid {holder})",
                hint="wait for it, or choose another directory with --out",
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _locked(fd: int, path: Path) -> bool:
    """Lock a file; return False if another run holds it. A command that looks for a run holds it for a moment."""
    for _ in range(LOOKS):
        if lock(fd, path):
            return True
        time.sleep(LOOK_S)
    return False


JOURNAL = "journal.jsonl"  # in the experiment's directory
# Events; `failed` has the fields error and host (whether a host failed).
ENDS = ("finished", "failed")
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
