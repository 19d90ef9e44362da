"""Ports for servers that are given the ports to listen on."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

LOWEST = 10_000


def free_ports(count: int, address: str = "127.0.0.1") -> int:
    """Return the first of `count` consecutive ports on which nothing listens.

    They are below those that the kernel gives to sockets that ask for none, so that no connection of
    another test takes one between this choice and the server's bind.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    highest = int(given.split()[0]) - count
    while True:
        first = random.randint(LOWEST, highest)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((address, port))
            return first
