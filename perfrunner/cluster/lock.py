"""One run at a time on a host: an flock on `<work_dir>/host.lock`, for as long as the run lives.

The kernel drops it with its holder, so it is never stale: the holder is this process (local) or a process on the
host that ends with our channel (SSH). The file says who holds it, for the message only.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import time
from pathlib import Path
from typing import Protocol

from perfrunner.cluster import scripts
from perfrunner.cluster.local import LocalTransport
from perfrunner.cluster.ssh import SshTransport
from perfrunner.errors import HostError

LOCK_FILE = "host.lock"
_SSH_GRANT_S = 10.0


class HostLock(Protocol):
    """Held from its making on."""

    @property
    def held(self) -> bool:
        """False once the link is lost: another run may have the host by now."""
        ...

    def release(self) -> None: ...


def lock_host(transport: LocalTransport | SshTransport, run_id: str) -> HostLock:
    """HostError, naming the holder, when another run has the host."""
    path = f"{transport.work_dir}/{LOCK_FILE}"
    holder = (
        f"run {run_id or 'unnamed'} of {_user()}@{socket.gethostname()} (pid {os.getpid()},"
        f" since {time.strftime('%Y-%m-%d %H:%M:%S %Z')})"
    )
    if isinstance(transport, LocalTransport):
        return _LocalLock(transport.name, Path(path), holder)
    return _SshLock(transport, path, holder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _in_use(name: str, path: str, holder: str) -> HostError:
    return HostError(
        f"{name} is in use by {holder.strip() or 'another run'}",
        hint=f"wait for it; or give this host another work_dir (the lock is {path})",
    )


class _LocalLock:
    def __init__(self, name: str, path: Path, holder: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            error = _in_use(name, str(path), os.pread(fd, 1000, 0).decode(errors="replace"))
            os.close(fd)
            raise error from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder}\n".encode(), 0)
        self._fd: int | None = fd

    @property
    def held(self) -> bool:
        return self._fd is not None

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _SshLock:
    def __init__(self, transport: SshTransport, path: str, holder: str) -> None:
        self._stack = contextlib.ExitStack()
        argv = ["sh", "-c", scripts.HOLD_LOCK, "sh", path, holder]
        self._channel = self._stack.enter_context(transport.channel(argv, fed=True))
        self._channel.settimeout(_SSH_GRANT_S)
        try:
            said = self._channel.recv(1000)
            if said.strip() == b"held":
                return
            said += self._channel.recv_stderr(1000)
        except TimeoutError:
            said = b"the lock did not answer"
        except BaseException:
            self._stack.close()
            raise
        self._stack.close()
        raise _in_use(transport.peer, path, said.decode(errors="replace"))

    @property
    def held(self) -> bool:
        channel = self._channel
        ended = channel.closed or channel.exit_status_ready()
        return not ended and channel.get_transport().is_active()

    def release(self) -> None:
        self._stack.close()
