"""One run at a time on a host: an flock on `<work_dir>/host.lock` and one for the machine, as long as the run lives.

The machine's is on a directory that every machine has, whatever the work directories and users: nothing is created,
so nothing can be forged. $PERFRUNNER_SHARE_HOST=1 leaves it out, where two runs at a time do no harm (tests).

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
from perfrunner.errors import IN_USE, HostError

LOCK_FILE = "host.lock"
MACHINE = "/var/tmp"
SHARE = "PERFRUNNER_SHARE_HOST"
_SSH_GRANT_S = 10.0
_SSH_RELEASE_S = 2.0


class HostInUse(HostError):  # noqa: N818
    """Another run has the host."""


class HostLock(Protocol):
    """Held from its making on."""

    @property
    def held(self) -> bool:
        """False once the link is lost: another run may have the host by now."""
        ...

    def release(self) -> None: ...


def lock_host(
    transport: LocalTransport | SshTransport, run_id: str, *, machine: bool = True
) -> HostLock:
    """HostInUse, naming the holder, when another run has the host. `machine`: whatever its work directory is."""
    machine = machine and os.environ.get(SHARE) != "1"
    path = f"{transport.work_dir}/{LOCK_FILE}"
    holder = (
        f"run {run_id or 'unnamed'} of {_user()}@{socket.gethostname()} (pid {os.getpid()},"
        f" since {time.strftime('%Y-%m-%d %H:%M:%S %Z')})"
    )
    if isinstance(transport, LocalTransport):
        return _LocalLock(transport.name, Path(path), holder, machine=machine)
    return _SshLock(transport, path, holder, machine=machine)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _in_use(name: str, path: str, holder: str) -> HostInUse:
    return HostInUse(
        f"{name} {IN_USE} {holder.strip() or 'another run'}",
        hint=f"wait for it: two at a time would measure each other (the lock is {path})",
    )


class _LocalLock:
    def __init__(self, name: str, path: Path, holder: str, *, machine: bool) -> None:
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            if machine:
                fd = os.open(MACHINE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                if not _take(fd):
                    raise _in_use(name, MACHINE, _holder_on_this_machine())
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise HostError(
                    f"{name}: the lock {path} cannot be used: {error.strerror}"
                ) from error
            stack.callback(os.close, fd)
            if not _take(fd):
                raise _in_use(name, str(path), os.pread(fd, 1000, 0).decode(errors="replace"))
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{holder}\n".encode(), 0)
            self._stack = stack.pop_all()
        self._held = True

    @property
    def held(self) -> bool:
        return self._held

    def release(self) -> None:
        self._held = False
        self._stack.close()


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder_on_this_machine() -> str:
    """From /proc/locks: `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`."""
    inode = Path(MACHINE).stat().st_ino
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                return f"another run on this machine (pid {words[4]})"
    return "another run on this machine"


class _SshLock:
    def __init__(self, transport: SshTransport, path: str, holder: str, *, machine: bool) -> None:
        self._stack = contextlib.ExitStack()
        argv = ["sh", "-c", scripts.HOLD_LOCK, "sh", path, holder, MACHINE if machine else ""]
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
        """When it returns, the lock is free (or the link is gone)."""
        with contextlib.suppress(
            Exception
        ):  # of a dead link, whatever its kind: closing is what matters
            if self.held:
                self._channel.shutdown_write()
                self._channel.status_event.wait(_SSH_RELEASE_S)
        self._stack.close()
