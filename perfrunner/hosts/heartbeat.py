"""Detect a dead SSH link with a thread that sends keep-alive requests."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

INTERVAL_S = 2.0
LIMIT_S = 6.0


class Heartbeat:
    """A daemon thread that checks that a connection still answers; it ends with the connection."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport
        self._asked: float | None = None  # monotonic time of a request without an answer yet
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()

    @property
    def silent(self) -> bool:
        """Whether an answer is overdue."""
        asked = self._asked
        return asked is not None and time.monotonic() - asked > LIMIT_S

    def _beat(self) -> None:
        while self._transport.is_active():
            self._asked = time.monotonic()
            # Any answer counts; OpenSSH refuses the request. The call also returns when the connection ends.
            self._transport.global_request("keepalive@openssh.com", wait=True)
            self._asked = None
            time.sleep(INTERVAL_S)
