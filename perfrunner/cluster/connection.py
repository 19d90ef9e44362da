"""A Fabric connection that is quick on small exchanges and notices a dead host.

Paramiko leaves TCP_NODELAY off (40 ms an exchange) and no keepalive on (a cut link hangs for ever), so the socket is
made here: measured, a cut link ends a waiting command after 7-8 s. ~/.ssh/config is not read: host, port, user and
key come from the cluster file alone, so that a run means the same on every controller.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import fabric
from fabric.runners import Remote

CONNECT_TIMEOUT_S = 5.0
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_PROBES = 3, 1, 4
_USER_TIMEOUT_MS = 8000


class PromptRemote(Remote):  # type: ignore[misc]
    """Ctrl-C during Connection.run closes the channel; stock Fabric waits for the remote command's end."""

    def send_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        self.channel.close()
        raise interrupt


class HostConnection(fabric.Connection):  # type: ignore[misc]
    """One host. `open` may be called again after the link was lost."""

    def __init__(self, address: str, *, port: int, user: str | None, key: str | None) -> None:
        _keep_quiet()
        config = fabric.Config(
            overrides={
                "load_ssh_configs": False,
                "runners": {"remote": PromptRemote},
                "run": {"in_stream": False, "hide": True},
            },
            lazy=True,
        )
        connect: dict[str, Any] = {
            "banner_timeout": CONNECT_TIMEOUT_S,
            "auth_timeout": CONNECT_TIMEOUT_S,
            "channel_timeout": CONNECT_TIMEOUT_S,
            # A named key is the only one offered: a server counts every key tried against MaxAuthTries.
            "allow_agent": key is None,
            "look_for_keys": key is None,
        }
        if key is not None:
            connect["key_filename"] = str(Path(key).expanduser())
        super().__init__(
            address, user=user, port=port, config=config, connect_kwargs=connect, connect_timeout=5
        )

    def open(self) -> Any:
        """Connect and authenticate; a no-op while connected. OSError, paramiko.SSHException."""
        if self.is_connected:
            return None
        # A socket serves one connection: it must not be found here at the next opening.
        self.connect_kwargs["sock"] = responsive_socket(self.host, self.port)
        try:
            return super().open()
        except BaseException:
            self.connect_kwargs["sock"].close()
            raise
        finally:
            del self.connect_kwargs["sock"]


def _keep_quiet() -> None:
    """Paramiko's tracebacks go where a program's logging sends them; without any logging, nowhere."""
    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def responsive_socket(address: str, port: int) -> socket.socket:
    """A connected TCP socket without Nagle's delay, whose peer's silence is noticed within 8 s."""
    sock = socket.create_connection((address, port), timeout=CONNECT_TIMEOUT_S)
    for level, option, value in (
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS),
    ):
        sock.setsockopt(level, option, value)
    return sock
