"""One run at a time on a host: an flock on `<work_dir>/host.lock` and one for the machine, as long as the run lives.

The machine's is on a directory that every machine has, whatever the work directories and users: nothing is created,
so nothing can be forged. $PERFRUNNER_SHARE_HOST=1 leaves it out, where two runs at a time do no harm (tests).

The kernel drops it with its holder: this process (local), or a process on the host that ends with our channel (SSH).
Where a link was cut, that is when the host's sshd notices, which may be hours later: a run ends what holds the lock for
its own connection of before, or for a process of its own on this machine that is gone. The file says who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import re
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
_HOLDER = re.compile(r"(?P<run>run \S+ of .*) \(pid (?P<pid>\d+), since .*\)")


class HostInUse(HostError):  # noqa: N818
    """Another run has the host; `holder` is what that says of itself."""

    def __init__(self, name: str, holder: str, hint: str) -> None:
        self.holder = holder.strip()
        super().__init__(f"{name} {IN_USE} {self.holder or 'another run'}", hint)


class HostLock(Protocol):
    """Held from its making on."""

    @property
    def held(self) -> bool:
        """False once the link is lost: another run may have the host by now."""
        ...

    def release(self) -> None: ...


def lock_host(
    transport: LocalTransport | SshTransport,
    run_id: str,
    *,
    machine: bool = True,
    again: bool = False,
) -> HostLock:
    """HostInUse, naming the holder, when another run has the host. `machine`: whatever its work directory is.

    `again`: this process had it, over a connection that is gone.
    """
    machine = machine and os.environ.get(SHARE) != "1"
    path = f"{transport.work_dir}/{LOCK_FILE}"
    who = f"run {run_id or 'unnamed'} of {_user()}@{socket.gethostname()}"
    holder = f"{who} (pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S %Z')})"
    if isinstance(transport, LocalTransport):
        return _LocalLock(transport, Path(path), holder, machine=machine)
    try:
        return _SshLock(transport, path, holder, machine=machine)
    except HostInUse as error:
        if not (run_id and _is_past(error.holder, who, again=again)):
            raise
        return _SshLock(transport, path, holder, machine=machine, past=error.holder)


def _is_past(holder: str, who: str, *, again: bool) -> bool:
    """Whether the connection that holds a lock has nobody at its other end: it was ours, or that of a dead process."""
    said = _HOLDER.fullmatch(holder)
    if said is None or said["run"] != who:
        return False
    pid = int(said["pid"])
    return again if pid == os.getpid() else not _lives(pid)


def _lives(pid: int) -> bool:
    """Here, on the controller."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _in_use(name: str, path: str, holder: str) -> HostInUse:
    hint = f"wait for it: two at a time would measure each other (the lock is {path})"
    return HostInUse(name, holder, hint)


def _machine_in_use(name: str, holder: str) -> HostInUse:
    """By a run in another work directory."""
    hint = (
        f"wait for it: two at a time would measure each other (the lock is the machine's, on {MACHINE};"
        f" {SHARE}=1 leaves that one out, where two do no harm; a work directory's own is never left out)"
    )
    return HostInUse(name, holder, hint)


class _LocalLock:
    def __init__(
        self, transport: LocalTransport, path: Path, holder: str, *, machine: bool
    ) -> None:
        name = transport.name
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            taken = True
            if machine:
                fd = os.open(MACHINE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                taken = _take(fd)
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise HostError(
                    f"{name}: the lock {path} cannot be used: {error.strerror}"
                ) from error
            stack.callback(os.close, fd)
            if not _take(fd):
                said = os.pread(fd, 1000, 0).decode(errors="replace")
                raise _in_use(name, str(path), said.partition("\n")[0])
            if not taken:
                who = ["sh", "-c", scripts.WHO_HAS_MACHINE, "sh", MACHINE]
                raise _machine_in_use(name, transport.run(who, check=False).stdout)
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


class _SshLock:
    def __init__(
        self, transport: SshTransport, path: str, holder: str, *, machine: bool, past: str = ""
    ) -> None:
        """`past`: the holder whose processes on the host are ended for it."""
        with contextlib.ExitStack() as stack:
            locked = MACHINE if machine else ""
            argv = ["sh", "-c", scripts.HOLD_LOCK, "sh", path, holder, locked, past]
            self._channel = stack.enter_context(transport.channel(argv, fed=True))
            said = transport.first_words(self._channel, b"held\n", _SSH_GRANT_S)
            if said is None:
                self._stack = stack.pop_all()
                return
        text = said.stdout.decode(errors="replace")
        if said.exit == scripts.IN_USE:
            raise _in_use(transport.peer, path, text)
        if said.exit == scripts.MACHINE_IN_USE:
            raise _machine_in_use(transport.peer, text)
        why = said.stderr.decode(errors="replace").strip() or f"status {said.exit}"
        raise HostError(f"{transport.peer}: the lock {path} cannot be used: {why}")

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
