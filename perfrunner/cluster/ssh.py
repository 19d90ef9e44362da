"""A host behind SSH: one Fabric connection, one channel a command.

Commands use the connection's channels directly rather than Connection.run: that reads output in quadratic time, takes
40 ms more and tells a lost link and a killed command alike. What is quoted once (shell.command_line) arrives as the
same argument list.
"""

from __future__ import annotations

import contextlib
import random
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from perfrunner.cluster.heartbeat import Heartbeat
from perfrunner.cluster.hostkeys import HostKeyPolicy, KnownHosts
from perfrunner.cluster.shell import CHUNK, Kept, ShellTransport, Sink, command_line, supervised
from perfrunner.cluster.ssh_config import Endpoint
from perfrunner.cluster.transport import CommandTimeout, LinkLost, Raw
from perfrunner.errors import HostError

if TYPE_CHECKING:
    import paramiko

    from perfrunner.cluster.connection import HostConnection

MAX_CHANNELS = 8  # a stock sshd refuses the 11th
CHANNEL_WAIT_S = 60.0
CHANNEL_TIMEOUT_S = 5.0
NO_STATUS = 255  # the wrapper itself was killed; ssh(1) says the same
_ASK_S = 1.0  # how often one who waits for the host looks whether its sshd still answers
_STATUS_WAIT_S = 10.0  # after the end of output
_NO_ANSWER = "its SSH server does not answer"
_TURNED_AWAY_S = 2.0
_GONE_S = 5.0  # a host that let us wait in vain is not asked again for so long: a clean-up asks it for many things
_CONNECT_TRIES = 4  # a stock sshd drops some of more than ten simultaneous newcomers
_LINK_HINT = "is the host up and its network reachable? What ran there is stopped by `perfrunner run --resume`"


class SshTransport(ShellTransport):
    """Connects at first use, and again after a lost link (so that a sweep can follow)."""

    def __init__(
        self,
        name: str,
        way: Sequence[Endpoint],
        *,
        known_hosts: str | None = None,
        host_keys: HostKeyPolicy = "strict",
    ) -> None:
        """`way`: the hops to the host and, last, its own sshd."""
        super().__init__(name)
        from perfrunner.cluster.connection import HostConnection

        self._known_hosts = KnownHosts(known_hosts, host_keys)
        self._connection: HostConnection = HostConnection(way, self._known_hosts.install)
        self._way = tuple(way)
        self._heartbeat: Heartbeat | None = None
        self._gone: tuple[float, HostError] | None = None  # until when (monotonic), and why
        self._connecting = threading.Lock()
        self._channels = threading.BoundedSemaphore(MAX_CHANNELS)

    @property
    def peer(self) -> str:
        """For messages: name (user@address:port)."""
        link = self._connection
        hops = ", ".join(end.address for end in self._way[:-1])
        via = f" via {hops}" if hops else ""
        return f"{self._name} ({link.user}@{link.host}:{link.port}{via})"

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
        import paramiko

        link = self._connection
        for attempt in range(1, _CONNECT_TRIES + 1):
            began = time.monotonic()
            try:
                link.open()
            except paramiko.BadHostKeyException as error:
                raise HostError(
                    f"{self.peer}: the host key{self._of_jump} is not the one in"
                    f" {self._known_hosts.path}: someone else may be answering (got {error.key.fingerprint})",
                    hint=f"if the host was reinstalled: ssh-keygen -R '{link.asked.known_as}'"
                    f" -f {self._known_hosts.path}, then add the new key",
                ) from error
            except HostError:
                link.close()
                raise
            except (paramiko.SSHException, OSError, EOFError) as error:
                # Turned away at once, not left without an answer.
                crowded = time.monotonic() - began < _TURNED_AWAY_S and (
                    "banner" in str(error) or isinstance(error, ConnectionResetError | EOFError)
                )
                if crowded and attempt < _CONNECT_TRIES:
                    time.sleep(random.uniform(0.1, 0.4) * attempt)
                    continue
                try:
                    self._explain(error)
                except HostError as told:
                    if time.monotonic() - began >= _TURNED_AWAY_S:
                        self._gone = (time.monotonic() + _GONE_S, told)
                    raise
            else:
                self._heartbeat = Heartbeat(link.transport)
                return

    def _explain(self, error: Exception) -> NoReturn:
        import paramiko

        text = str(error) or type(error).__name__
        if "not found in known_hosts" in text:
            asked = self._connection.asked
            raise HostError(
                f"{self.peer}: unknown host{self._of_jump}: not in {self._known_hosts.path}",
                hint=self._known_hosts.remedy(asked.address, asked.port),
            ) from error
        if isinstance(error, paramiko.PasswordRequiredException):
            raise HostError(
                f"{self.peer}: the private key has a passphrase",
                hint="ssh-add it to an agent, and leave `key` out of the cluster file",
            ) from error
        if isinstance(error, paramiko.AuthenticationException):
            raise HostError(
                f"{self.peer}: refused our key ({text})",
                hint="check user and key in the cluster file and authorized_keys on the host",
            ) from error
        if "No authentication methods available" in text:
            raise HostError(
                f"{self.peer}: we have no key to offer: no agent and no default key has one",
                hint="name one with `key` in the cluster file, or ssh-add it to an agent",
            ) from error
        if isinstance(error, FileNotFoundError):
            raise HostError(f"{self.peer}: no such key file: {error.filename}") from error
        raise HostError(f"{self.peer}: cannot connect: {text}", hint=_LINK_HINT) from error

    @property
    def _of_jump(self) -> str:
        """For messages of host keys: nothing where it is the host's own."""
        asked = self._connection.asked
        return "" if asked == self._way[-1] else f" of the jump host {asked.known_as}"

    # --- commands ---

    def _execute(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        source: Iterable[bytes] | None = None,
        sink: Sink | None = None,
    ) -> Raw:
        out, err = Kept(self.peer), Kept(self.peer)
        deadline = time.monotonic() + timeout
        with self.channel(argv, fed=source is not None) as channel:
            if source is not None:
                self._feed(channel, source, deadline)
            if not self._drain(channel, deadline, sink or out.take, err.take):
                raise CommandTimeout(f"{self.peer}: {argv[0]} did not end within {timeout:g} s")
            return Raw(self._exit_status(channel), out.whole(), err.whole())

    def first_words(self, channel: paramiko.Channel, words: bytes, timeout: float) -> Raw | None:
        """None as soon as `channel`'s command has said `words`; its end, when it ends with others."""
        out, err = Kept(self.peer), Kept(self.peer)
        deadline = time.monotonic() + timeout
        ended = self._drain(channel, deadline, out.take, err.take, lambda: out.whole() == words)
        if out.whole() == words:
            return None
        if not ended:
            raise CommandTimeout(f"{self.peer}: no answer within {timeout:g} s")
        return Raw(self._exit_status(channel), out.whole(), err.whole())

    @contextlib.contextmanager
    def channel(self, argv: Sequence[str], *, fed: bool) -> Iterator[paramiko.Channel]:
        """A channel on which `argv` runs. Leaving it ends a command that is not `fed` by standard input."""
        import paramiko

        if not self._channels.acquire(timeout=CHANNEL_WAIT_S):
            raise HostError(f"{self.peer}: {MAX_CHANNELS} commands are running there already")
        try:
            channel = self._open_channel()
            try:
                try:
                    # `exec`: the login shell, whatever it is, gives way to a POSIX one.
                    channel.exec_command(f"exec {command_line(supervised(argv, fed=fed))}")
                except OSError as error:  # a reset connection is none of Paramiko's exceptions
                    raise self._lost(error) from error
                yield channel
            except (paramiko.SSHException, EOFError) as error:
                raise self._lost(error) from error
            finally:
                channel.close()
        finally:
            self._channels.release()

    def _open_channel(self) -> paramiko.Channel:
        import paramiko

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
                        f"{self.peer}: the SSH server opens no further session ({error})",
                        hint="its MaxSessions must be 10 (the default) or more",
                    ) from error
                # Of two refusals at one time Paramiko may give a thread the other's exception, and the other none.
                if not refused and (late or not transport.is_active()):
                    raise self._lost(error) from error
                # The server counts a session until it has reaped it, a moment after our channel has ended.
                time.sleep(0.02)
            except (OSError, EOFError) as error:
                raise self._lost(error) from error

    def _drain(
        self,
        channel: paramiko.Channel,
        deadline: float,
        out: Sink,
        err: Sink,
        enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Take all output until its end, or `enough`; False when the deadline passes first."""
        while True:
            at_end = (
                channel.eof_received or channel.closed
            )  # before taking: nothing arrives after it
            while channel.recv_ready():
                out(channel.recv(CHUNK))
            while channel.recv_stderr_ready():
                err(channel.recv_stderr(CHUNK))
            if at_end or enough():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not select.select([channel], [], [], min(left, _ASK_S))[0] and self._silent:
                raise self._lost(TimeoutError(_NO_ANSWER))

    def _feed(self, channel: paramiko.Channel, source: Iterable[bytes], deadline: float) -> None:
        """Until the host has taken all, or the deadline passes."""
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
                except (
                    OSError
                ):  # the command ended before it had read all (disk full): its status tells why
                    return
        with contextlib.suppress(OSError):
            channel.shutdown_write()

    def _read(self, source: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield from source
        except OSError as error:
            raise HostError(
                f"what was to be sent to {self.peer} cannot be read: {error.strerror or error}"
            ) from error

    @property
    def _silent(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.silent

    def _exit_status(self, channel: paramiko.Channel) -> int:
        channel.status_event.wait(_STATUS_WAIT_S)
        if channel.exit_status != -1:
            return channel.exit_status
        if channel.get_transport().is_active():
            return NO_STATUS
        raise self._lost(None)

    def _lost(self, error: Exception | None) -> LinkLost:
        # Paramiko may take the dead transport for a live one a moment longer: the next command connects anew.
        self._connection.close()
        return LinkLost(
            f"{self.peer}: the connection is lost{f' ({error})' if str(error or '') else ''}",
            _LINK_HINT,
        )
