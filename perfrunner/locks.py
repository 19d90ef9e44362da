"""Lock files against other processes. The kernel releases a lock when its holder ends."""

from __future__ import annotations

import fcntl
from pathlib import Path

LOCK_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


def lock(fd: int, path: Path, how: int = LOCK_NOW) -> bool:
    """Lock an open file; return False if another process has it. Raises OSError, which names `path`, without locks."""
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return True
