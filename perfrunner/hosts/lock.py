"""Lock a host so that one run at a time measures on it.

A run holds two flocks until it ends: one on `<work_dir>/host.lock` and one for the whole machine. The machine's lock is
taken on a directory that exists on every machine. Nothing is created for it, so nothing can be forged, and it works
across users and work directories. PERFRUNNER_SHARE_HOST=1 skips the machine's lock (for tests, where two runs at a time
do no harm).

The kernel releases a lock when its holder ends. The holder is this process (local) or a process on the host that ends
with our SSH channel. After a link was cut, the host's sshd may notice it hours later. A run therefore ends the holder
of its own earlier connection, or of a dead run on this machine. The lock file names the holder.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from perfrunner.errors import IN_USE, HostError, harmless
from perfrunner.hosts import scripts
from perfrunner.hosts.local import LocalTransport
from perfrunner.paths import lock

if TYPE_CHECKING:
    from perfrunner.hosts.ssh import SshTransport

LOCK_FILE = "host.lock"
MACHINE = "/var/tmp"
SHARE = "PERFRUNNER_SHARE_HOST"
LONGEST_HOLDER = 300
_LOCKABLE = "use a work directory on a local disk: work_dir in the cluster file"
_SSH_GRANT_S = 10.0
_SSH_RELEASE_S = 2.0
_HOLDER = re.compile(r"(?P<run>run \S+ of .*) \(pid (?P<pid>\d+), since .*\)")


class HostInUse(HostError):  # noqa: N818
    """Raised when another run has the host. `holder` is the description that the other run left in the lock."""

    def __init__(self, name: str, holder: str, hint: str) -> None:
        self.holder = harmless(holder.strip())[:LONGEST_HOLDER]  # any user can write it
        super().__init__(f"host {name} {IN_USE} {self.holder or 'another run'}", hint)


class HostLock(Protocol):
    """A lock on one host, held from its construction until `release`."""

    @property
    def held(self) -> bool:
        """False once the link is lost: another run may have the host by now."""
        ...

    def release(self) -> None:
        """Give up the lock."""
        ...


def lock_host(
    transport: LocalTransport | SshTransport,
    run_id: str,
    *,
    machine: bool = True,
    again: bool = False,
) -> HostLock:
    """Lock the host for a run; raise HostInUse, naming the holder, when another run has it.

    `machine`: lock the whole machine too, against runs in other work directories. `again`: this process held the lock
    before, over a connection that is gone.
    """
    machine = machine and os.environ.get(SHARE) != "1"
    path = f"{transport.work_dir}/{LOCK_FILE}"
    who = f"run {run_id or 'unnamed'} of {_user()}@{socket.gethostname()}"
    holder = f"{who} (pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S %Z')})"
    try:
        if isinstance(transport, LocalTransport):
            return _LocalLock(transport, Path(path), holder, machine=machine)
        return _SshLock(transport, path, holder, machine=machine)
    except HostInUse as error:
        match = _HOLDER.fullmatch(error.holder)
        if match is None or match["run"] != who:
            raise
        pid = int(match["pid"])
        if pid == os.getpid() and not again:
            raise HostError(
                f"{transport.name} is the same machine and work directory as another host of the cluster",
                "give one of them another work_dir in the cluster file, or use one host in both roles",
            ) from error
        # An earlier connection of this run, or a process that has died, may be left there.
        is_past = pid == os.getpid() or not _lives(pid)
        if not run_id or not is_past or isinstance(transport, LocalTransport):
            raise
        return _SshLock(transport, path, holder, machine=machine, past=error.holder)


def _lives(pid: int) -> bool:
    """Tell whether a process of this machine, the controller, exists."""
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
    hint = (
        f"wait until it ends: two runs at a time disturb each other's measurements (lock: {path})"
    )
    return HostInUse(name, holder, hint)


def _machine_in_use(name: str, holder: str) -> HostInUse:
    """Return the error for a machine that is locked by a run in another work directory."""
    hint = (
        "wait until it ends: two runs at a time disturb each other's measurements"
        f" (lock: {MACHINE}, for the whole machine; set {SHARE}=1 to skip it where two runs do no harm)"
    )
    return HostInUse(name, holder, hint)


class _LocalLock:
    """A lock that this process holds on this machine."""

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
                taken = _take(fd, Path(MACHINE), name)
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise _no_lock(name, error) from error
            stack.callback(os.close, fd)
            if not _take(fd, path, name):
                text = os.pread(fd, 1000, 0).decode(errors="replace")
                raise _in_use(name, str(path), text.partition("\n")[0])
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


def _take(fd: int, path: Path, name: str) -> bool:
    """Lock a file or directory; return False when another process has locked it."""
    try:
        return lock(fd, path)
    except OSError as error:
        raise _no_lock(name, error) from error


def _no_lock(name: str, error: OSError) -> HostError:
    return HostError(f"{name}: cannot lock {error.filename}: {error.strerror}", _LOCKABLE)


class _SshLock:
    """A lock that a process on the host holds; the process ends with our channel."""

    def __init__(
        self, transport: SshTransport, path: str, holder: str, *, machine: bool, past: str = ""
    ) -> None:
        """Take the lock. `past`: a former holder, whose processes on the host are ended first."""
        with contextlib.ExitStack() as stack:
            locked = MACHINE if machine else ""
            argv = ["sh", "-c", scripts.HOLD_LOCK, "sh", path, holder, locked, past]
            command = stack.enter_context(transport.channel(argv, fed=True))
            self._channel = command.channel
            refusal = transport.await_output(command, b"held\n", _SSH_GRANT_S)
            if refusal is None:
                self._stack = stack.pop_all()
                return
        text = refusal.stdout.decode(errors="replace")
        if refusal.exit == scripts.IN_USE:
            raise _in_use(transport.peer, path, text)
        if refusal.exit == scripts.MACHINE_IN_USE:
            raise _machine_in_use(transport.peer, text)
        why = refusal.stderr.decode(errors="replace").strip() or f"status {refusal.exit}"
        raise HostError(f"{transport.peer}: cannot lock {path}: {why}", _LOCKABLE)

    @property
    def held(self) -> bool:
        channel = self._channel
        ended = channel.closed or channel.exit_status_ready()
        return not ended and channel.get_transport().is_active()

    def release(self) -> None:
        """Release the lock, and return when it is free (or the link is gone)."""
        # A dead link may raise anything; it is enough that the channel is closed.
        with contextlib.suppress(Exception):
            if self.held:
                self._channel.shutdown_write()
                self._channel.status_event.wait(_SSH_RELEASE_S)
        self._stack.close()
