"""One run at a time in a results directory.

An flock on `<out>/lock`, held by an open descriptor for as long as the run lives: the kernel drops it when the
process dies, however it dies, so a lock is never stale. The file holds the pid of its holder, for the message only.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from perfrunner.errors import IN_USE, UsageError


class OutDirLock:
    """Context manager; raises UsageError naming the holder when another run has the directory."""

    def __init__(self, out_dir: Path) -> None:
        self._path = out_dir / "lock"
        self._fd: int | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise UsageError(
                f"cannot use {self._path.parent} for results: {error.strerror}"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise UsageError(
                f"{self._path.parent} {IN_USE} another run (pid {holder})",
                hint="wait for it, or give this run its own directory with --out",
            ) from None
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
