"""A Fabric connection that is quick on small exchanges and notices a dead host.

Paramiko leaves TCP_NODELAY off (40 ms an exchange) and no keepalive on (a cut link hangs for ever), so the socket is
made here: measured, a cut link ends a waiting command after 7-8 s. Fabric's own reading of ~/.ssh/config is off: the
way to a host is perfrunner.cluster.ssh_config's, so that a run means the same on every controller.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

import fabric
import paramiko
from fabric.runners import Remote

from perfrunner.cluster.ssh_config import Endpoint

CONNECT_TIMEOUT_S = 5.0
# Options of a TCP socket. macOS calls the first TCP_KEEPALIVE and lacks the last; the heartbeat notices what it would.
_PATIENCE = {
    "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE": 3,  # s
    "TCP_KEEPINTVL": 1,  # s
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 8000,  # ms
}


class PromptRemote(Remote):  # type: ignore[misc]
    """Ctrl-C during Connection.run closes the channel; stock Fabric waits for the remote command's end."""

    def send_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        self.channel.close()
        raise interrupt


class HostConnection(fabric.Connection):  # type: ignore[misc]
    """One host, through others where `way` names them before it. `open` may be called again after the link was lost.

    `prepare` is called with each client before it connects: it installs the host keys that are believed.
    """

    # Fabric takes attributes that the class does not have for configuration.
    _hops: Sequence[Endpoint] = ()
    _target: Any = None
    _prepare: Any = None
    _through: Any = None  # clients of the hops, the nearest first
    asked: Any = None  # Endpoint: whose sshd was last asked to let us in

    def __init__(self, way: Sequence[Endpoint], prepare: Callable[[Any], None]) -> None:
        _keep_quiet()
        *hops, target = way
        self._hops, self._target, self._prepare, self._through = hops, target, prepare, []
        self.asked = way[0]
        config = fabric.Config(
            overrides={
                "load_ssh_configs": False,
                "runners": {"remote": PromptRemote},
                "run": {"in_stream": False, "hide": True},
            },
            lazy=True,
        )
        super().__init__(
            target.address,
            user=target.user,
            port=target.port,
            config=config,
            connect_kwargs=_connect_kwargs(target),
            connect_timeout=5,
        )

    def open(self) -> Any:
        """Connect and authenticate; a no-op while connected. OSError, paramiko.SSHException."""
        if self.is_connected:
            return None
        self._prepare(self.client)
        # A socket serves one connection: it must not be found here at the next opening.
        self.connect_kwargs["sock"] = self._socket()
        self.asked = self._target
        try:
            return super().open()
        except BaseException:
            self.connect_kwargs["sock"].close()
            self._leave_hops()
            raise
        finally:
            del self.connect_kwargs["sock"]

    def close(self) -> None:
        super().close()
        self._leave_hops()

    def _socket(self) -> Any:
        """To the host's sshd: our own, or a channel of the last hop's connection."""
        self._leave_hops()
        if not self._hops:
            return responsive_socket(self.host, self.port)
        sock: Any = responsive_socket(self._hops[0].address, self._hops[0].port)
        ends = [*((hop.address, hop.port) for hop in self._hops[1:]), (self.host, self.port)]
        try:
            for hop, end in zip(self._hops, ends, strict=True):
                self.asked = hop
                client = paramiko.SSHClient()
                self._through.append(client)
                self._prepare(client)
                client.connect(
                    hop.address,
                    hop.port,
                    hop.user,
                    sock=sock,
                    timeout=CONNECT_TIMEOUT_S,
                    **_connect_kwargs(hop),
                )
                transport = client.get_transport()
                if transport is None:
                    raise EOFError
                sock = transport.open_channel(
                    "direct-tcpip", end, ("", 0), timeout=CONNECT_TIMEOUT_S
                )
        except BaseException:
            sock.close()
            self._leave_hops()
            raise
        return sock

    def _leave_hops(self) -> None:
        for client in reversed(self._through):
            client.close()
        self._through.clear()


def _connect_kwargs(end: Endpoint) -> dict[str, Any]:
    connect: dict[str, Any] = {
        "banner_timeout": CONNECT_TIMEOUT_S,
        "auth_timeout": CONNECT_TIMEOUT_S,
        "channel_timeout": CONNECT_TIMEOUT_S,
        # Of a key that the cluster file names no other is offered: a server counts every one against MaxAuthTries.
        "allow_agent": end.agent,
        "look_for_keys": not end.keys,
    }
    if end.keys:
        connect["key_filename"] = list(end.keys)  # with KEY-cert.pub beside it, that too
    return connect


def _keep_quiet() -> None:
    """Paramiko's tracebacks go where a program's logging sends them; without any logging, nowhere."""
    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def responsive_socket(address: str, port: int) -> socket.socket:
    """A connected TCP socket without Nagle's delay, whose peer's silence is noticed within 8 s."""
    sock = socket.create_connection((address, port), timeout=CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PATIENCE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock
