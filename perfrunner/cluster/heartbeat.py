"""Notices a peer whose kernel still answers but whose sshd does not (frozen, swapping, a stuck relay).

The socket's own options (perfrunner.cluster.connection) notice a host that is gone; here the SSH server itself is asked
every two seconds, which costs the host one packet and some 50 µs. Whoever waits on the connection looks at `silent`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

INTERVAL_S = 2.0
LIMIT_S = 6.0


class Heartbeat:
    """One daemon thread a connection; it ends with the connection."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport
        self._asked: float | None = None  # monotonic, while an answer is owed
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()

    @property
    def silent(self) -> bool:
        """An answer has been owed for too long."""
        asked = self._asked
        return asked is not None and time.monotonic() - asked > LIMIT_S

    def _beat(self) -> None:
        while self._transport.is_active():
            self._asked = time.monotonic()
            # Any answer will do: OpenSSH's is a refusal. Returns without one when the connection ends.
            self._transport.global_request("keepalive@openssh.com", wait=True)
            self._asked = None
            time.sleep(INTERVAL_S)
