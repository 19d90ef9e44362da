"""Run commands on a host over SSH: one Fabric connection, one channel per command.

Commands use the connection's channels directly and not Connection.run, which reads output in quadratic time, takes
40 ms more and does not distinguish a lost link from a killed command. An argument list arrives as the same argument
list, whatever the login shell is (perfrunner.hosts.scripts).
"""

from __future__ import annotations

import contextlib
import random
import select
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import paramiko

from perfrunner.errors import HostError
from perfrunner.hosts.connection import LOGIN_TIMEOUT_S, Heartbeat, HostConnection, ProxyFailed
from perfrunner.hosts.hostkeys import ChangedKey, UnknownKey
from perfrunner.hosts.identities import LoginRefused, SlowLogin
from perfrunner.hosts.openssh import Route
from perfrunner.hosts.process import CommandTimeout, LinkLost, OutputBuffer, Raw
from perfrunner.hosts.scripts import AfterMark, login_command, marked_program
from perfrunner.hosts.transport import CHUNK, Sink, Transport, hint_of

MAX_CHANNELS = 8  # a stock sshd refuses the 11th
CHANNEL_WAIT_S = 60.0
CHANNEL_TIMEOUT_S = 5.0
_ASK_S = 1.0  # how often a waiting command checks that the host's sshd still answers
_STATUS_WAIT_S = 10.0  # after the end of output
_LOCK_WAIT_S = 5.0  # for a lock of a channel, which is held for microseconds
_NO_ANSWER = "its SSH server does not answer"
_TURNED_AWAY_S = 2.0
_GONE_S = 5.0  # after a time-out, further connections fail at once for so long: a clean-up makes many of them
_CONNECT_TRIES = 4  # a stock sshd drops some of more than ten simultaneous new connections
_LONGEST_OUTPUT = 500  # characters of what a login shell wrote
SHELL_WAIT_S = 30.0  # until the login shell has run the first command
_SHELL_HINT = (
    "look at the user's shell in /etc/passwd and at its start files on the host: without a terminal they must not"
    " wait, start another program or redirect output; sshd must not force a command (ForceCommand, or command= in"
    " authorized_keys)"
)
_LINK_HINT = (
    "check that the host is up and reachable; `perfrunner run --resume` stops leftover processes"
)

_ALGORITHMS_HINT = (
    "the host's sshd allows only algorithms that perfrunner's SSH library or your ssh_config does not; allow, for"
    " example, curve25519-sha256 (KexAlgorithms), aes128-ctr (Ciphers), hmac-sha2-256 (MACs) and ssh-ed25519"
    " (HostKeyAlgorithms) in its sshd_config"
)


@dataclass(frozen=True)
class Command:
    """A command that runs on `channel`; it prints `mark` on both outputs before anything of its own."""

    channel: paramiko.Channel
    mark: bytes


class SshTransport(Transport):
    """A transport over SSH. Connects at first use, and again after a lost link, so that a sweep can follow."""

    def __init__(self, name: str, route: Route) -> None:
        super().__init__(name)
        self._connection = HostConnection(route)
        self._route = route
        self._heartbeat: Heartbeat | None = None
        self._gone: tuple[float, HostError] | None = None  # until when (monotonic), and why
        self._connecting = threading.Lock()
        self._channels = threading.BoundedSemaphore(MAX_CHANNELS)

    @property
    def peer(self) -> str:
        """The host as error messages name it: `name (user@address:port)`."""
        return f"{self._name} ({self._route.peer})"

    def close(self) -> None:
        self._connection.close()

    # --- connecting ---

    def _connected(self) -> paramiko.Transport:
        with self._connecting:
            if not self._connection.is_connected:
                if self._gone is not None and time.monotonic() < self._gone[0]:
                    raise HostError(self._gone[1].message, self._gone[1].hint)
                self._connect()
            transport: paramiko.Transport = self._connection.transport
            return transport

    def _connect(self) -> None:
        link = self._connection
        for attempt in range(1, _CONNECT_TRIES + 1):
            began = time.monotonic()
            try:
                link.open()
                self._heartbeat = link.heartbeat()
                return
            except (UnknownKey, ChangedKey) as error:
                link.close()
                raise self._misjudged(error) from error
            except HostError:
                link.close()
                raise
            except (paramiko.SSHException, OSError, EOFError) as error:
                link.close()
                # The server refused at once, as opposed to not answering.
                crowded = time.monotonic() - began < _TURNED_AWAY_S and (
                    "banner" in str(error)
                    or "kex_exchange_identification" in str(error)  # the message of a jump
                    or "the proxy ended" in str(error)  # without a message
                    or isinstance(error, ConnectionResetError | EOFError)
                )
                if crowded and attempt < _CONNECT_TRIES:
                    time.sleep(random.uniform(0.1, 0.4) * attempt)
                    continue
                try:
                    self._explain(error)
                except HostError as explained:
                    if time.monotonic() - began >= _TURNED_AWAY_S:
                        self._gone = (time.monotonic() + _GONE_S, explained)
                    raise

    def _misjudged(self, error: UnknownKey | ChangedKey) -> HostError:
        if isinstance(error, ChangedKey):
            return HostError(
                f"{self.peer}: the host key differs from the one in {error.message}", error.hint
            )
        route, host_keys = self._route, self._route.host_keys
        hint = error.hint
        if hint is None and route.proxy is None and host_keys.user_files:
            hint = (
                f"check the host's fingerprint, then run: ssh-keyscan -p {route.port} {route.host} >>"
                f" {host_keys.user_files[0]} (or set `host_keys: accept-new` for the host in the cluster file)"
            )
        hint = hint or f"connect once by hand: {shlex.join(route.destination.command())}"
        return HostError(f"{self.peer}: the host key is {error.message}", hint)

    def _explain(self, error: Exception) -> NoReturn:
        text = str(error) or type(error).__name__
        if text == "No existing session":  # how Paramiko puts it
            text = _NO_ANSWER
        if isinstance(error, ProxyFailed):
            by_hand = shlex.join(self._route.destination.command())
            raise HostError(
                f"{self.peer}: cannot connect: {text}",
                hint=f"jumps and proxies follow ssh_config alone; try: {by_hand}",
            ) from error
        if isinstance(error, SlowLogin):
            by_hand = shlex.join([*self._route.destination.command(), "true"])
            raise HostError(
                f"{self.peer}: the login does not end within {LOGIN_TIMEOUT_S:g} s: {text}",
                hint="name servers, user directories (LDAP) or PAM modules of the host may be slow; see how long this"
                f" takes: {by_hand}",
            ) from error
        if isinstance(error, LoginRefused):
            raise HostError(f"{self.peer}: {text}", error.remedy) from error
        if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
            raise HostError(f"{self.peer}: cannot connect: {text}", _ALGORITHMS_HINT) from error
        raise HostError(f"{self.peer}: cannot connect: {text}", hint=_LINK_HINT) from error

    # --- commands ---

    def _execute(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        source: Iterable[bytes] | None = None,
        sink: Sink | None = None,
    ) -> Raw:
        out, err = OutputBuffer(self.peer), OutputBuffer(self.peer)
        if self._work_dir is None:
            timeout = min(timeout, SHELL_WAIT_S)
        deadline = time.monotonic() + timeout
        with self.channel(argv, fed=source is not None) as command:
            channel = command.channel
            mine = AfterMark(command.mark, sink or out.take), AfterMark(command.mark, err.take)
            if self._work_dir is None:
                self._await_shell(channel, deadline, *mine)
            if source is not None:
                # Start files may read standard input, so it is fed when they have ended.
                self._drain(channel, deadline, *mine, enough=lambda: mine[0].seen)
                if mine[0].seen:
                    self._feed(channel, source, deadline)
            if not self._drain(channel, deadline, *mine):
                if channel.exit_status_ready():
                    text = f"{self.peer}: {argv[0]} has ended, and its output stays open"
                    raise HostError(text, _SHELL_HINT)
                raise CommandTimeout(f"{self.peer}: {argv[0]} did not end within {timeout:g} s")
            status = self._exit_status(channel)
            self._refuse_silent_shell(mine, status)
            return Raw(status, out.whole(), err.whole())

    def await_output(self, command: Command, expected: bytes, timeout: float) -> Raw | None:
        """Wait until `command` has printed exactly `expected`.

        Returns None then, or the result of a command that ended with other output.
        """
        out, err = OutputBuffer(self.peer), OutputBuffer(self.peer)
        mine = AfterMark(command.mark, out.take), AfterMark(command.mark, err.take)
        deadline = time.monotonic() + timeout
        ended = self._drain(
            command.channel, deadline, *mine, enough=lambda: out.whole() == expected
        )
        if out.whole() == expected:
            return None
        if not ended:
            raise CommandTimeout(f"{self.peer}: no answer within {timeout:g} s")
        status = self._exit_status(command.channel)
        self._refuse_silent_shell(mine, status)
        return Raw(status, out.whole(), err.whole())

    def _await_shell(
        self, channel: paramiko.Channel, deadline: float, out: AfterMark, err: AfterMark
    ) -> None:
        """Wait until the login shell starts the first command on the host, or ends. Raises HostError if it does not."""
        if not self._drain(channel, deadline, out, err, enough=lambda: out.seen):
            self._refuse_shell(f"does not start a command within {SHELL_WAIT_S:g} s", out, err)

    def _refuse_silent_shell(self, outputs: Sequence[AfterMark], status: int) -> None:
        """Raise HostError if the login shell ended without running the command, or redirects its output."""
        if not outputs[0].seen:
            self._refuse_shell(f"does not run commands (status {status})", *outputs)
        if not outputs[1].seen and self._work_dir is None:
            raise HostError(f"{self.peer}: standard error does not arrive", _SHELL_HINT)

    def _refuse_shell(self, why: str, *outputs: AfterMark) -> NoReturn:
        text = _text_of(*outputs)
        hint = hint_of(text) or _SHELL_HINT
        raise HostError(f"{self.peer}: the login shell {why}: {text}", hint)

    @contextlib.contextmanager
    def channel(self, argv: Sequence[str], *, fed: bool) -> Iterator[Command]:
        """Open a channel on which `argv` runs. Leaving the context ends a command that is not `fed`."""
        if not self._channels.acquire(timeout=CHANNEL_WAIT_S):
            raise HostError(f"{self.peer}: {MAX_CHANNELS} commands are already running there")
        program, mark = marked_program(argv, fed=fed)
        try:
            channel = self._open_channel()
            try:
                try:
                    channel.exec_command(login_command(program))
                except OSError as error:  # Paramiko does not wrap a reset connection
                    raise self._lost(error) from error
                yield Command(channel, mark)
            except (paramiko.SSHException, EOFError) as error:
                raise self._lost(error) from error
            finally:
                _close(channel)
        finally:
            self._channels.release()

    def _open_channel(self) -> paramiko.Channel:
        patience = time.monotonic() + CHANNEL_TIMEOUT_S
        while True:
            transport = self._connected()
            try:
                return transport.open_session(timeout=CHANNEL_TIMEOUT_S)
            except paramiko.SSHException as error:
                refused = isinstance(error, paramiko.ChannelException)
                late = time.monotonic() > patience
                if refused and late:
                    raise HostError(
                        f"{self.peer}: the SSH server refuses another session: {error}",
                        hint="set MaxSessions to 10 (the default) or more in its sshd_config",
                    ) from error
                # When two sessions are refused at once, Paramiko may hand both exceptions to one thread.
                if not refused and (late or not transport.is_active()):
                    raise self._lost(error) from error
                # The server counts a session until it has reaped it, shortly after our channel has ended.
                time.sleep(0.02)
            except (OSError, EOFError) as error:
                raise self._lost(error) from error

    def _drain(
        self,
        channel: paramiko.Channel,
        deadline: float,
        out: AfterMark,
        err: AfterMark,
        *,
        enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Read output until its end, or until `enough`; return False when the deadline passes first."""
        while True:
            # Checked before reading: nothing arrives after the end.
            at_end = channel.eof_received or channel.closed
            while channel.recv_ready():
                out.take(channel.recv(CHUNK))
            while channel.recv_stderr_ready():
                err.take(channel.recv_stderr(CHUNK))
            if at_end or enough():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not select.select([channel], [], [], min(left, _ASK_S))[0] and self._silent:
                raise self._lost(TimeoutError(_NO_ANSWER))

    def _feed(self, channel: paramiko.Channel, source: Iterable[bytes], deadline: float) -> None:
        """Send `source` until the host has received everything, or the deadline passes."""
        channel.settimeout(_ASK_S)
        for chunk in self._read(source):
            rest = chunk
            while rest:
                try:
                    rest = rest[channel.send(rest) :]
                except TimeoutError:
                    if self._silent:
                        raise self._lost(TimeoutError(_NO_ANSWER)) from None
                    if time.monotonic() > deadline:
                        return
                except OSError:
                    # The command ended before it had read everything (disk full); its status explains it.
                    return
        with contextlib.suppress(OSError):
            channel.shutdown_write()

    def _read(self, source: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield from source
        except OSError as error:
            raise HostError(
                f"cannot read the data to send to {self.peer}: {error.strerror or error}"
            ) from error

    @property
    def _silent(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.silent

    def _exit_status(self, channel: paramiko.Channel) -> int:
        channel.status_event.wait(_STATUS_WAIT_S)
        if channel.exit_status != -1:
            return channel.exit_status
        if not channel.get_transport().is_active():
            raise self._lost(None)
        if self._work_dir is None:  # TIED ends the first command at the end of its standard input
            raise HostError(
                f"{self.peer}: the command was ended: its standard input is closed", _SHELL_HINT
            )
        raise HostError(
            f"{self.peer}: a command's session ended without a status: sshd closed it, or its shell was killed",
            "raise ChannelTimeout in the host's sshd_config, by which sshd closes idle sessions; its kernel log names"
            " what the OOM killer ended",
        )

    def _lost(self, error: Exception | None) -> LinkLost:
        # Paramiko may take the dead transport for a live one a little longer. Closing it makes the next command
        # connect.
        self._connection.close()
        return LinkLost(
            f"{self.peer}: the connection was lost{f' ({error})' if str(error or '') else ''}",
            _LINK_HINT,
        )


def _close(channel: paramiko.Channel) -> None:
    """Close a channel whose output may still arrive.

    `select` gave the channel a pipe. Paramiko closes that while its thread may write to it: the connection would end,
    or the byte would go into a file that another thread has just opened. So the buffers get another event first.

    Ctrl-C between a lock's `acquire` and the `try` after it leaves the lock held indefinitely. Paramiko holds these
    locks for microseconds, so one that is not free for seconds has nobody who will release it.
    """
    buffers: tuple[Any, ...] = (channel.in_buffer, channel.in_stderr_buffer)
    for lock in (channel.lock, *(buffer._lock for buffer in buffers)):  # noqa: SLF001
        lock.acquire(timeout=_LOCK_WAIT_S)
        lock.release()
    for buffer in buffers:
        buffer.set_event(threading.Event())
    channel.close()


def _text_of(*outputs: AfterMark) -> str:
    """Return what start files and the login shell wrote, on one line."""
    text = b" ".join(stream.before for stream in outputs).decode(errors="replace")
    return " ".join(text.split())[-_LONGEST_OUTPUT:] or "it prints nothing"
