"""Guard the results directory: one run at a time, and a clear error when its disk is full."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from perfrunner.errors import IN_USE, UsageError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SQLITE_FULL = "database or disk is full"


def disk_is_full(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, is a full disk, an exceeded quota or a file-size limit."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, OSError) and current.errno in FULL:
            return True
        if _SQLITE_FULL in str(current):
            return True
        current = current.__cause__ or current.__context__
    return False


class OutDirLock:
    """The lock of a results directory, as a context manager.

    Raises UsageError, with the pid of the owner, if another run uses the directory.
    """

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
                hint="wait for it, or choose another directory with --out",
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
