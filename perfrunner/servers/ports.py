"""Find ports for servers. Needs the standard library alone, because it runs on the server's host (agent.py)."""

from __future__ import annotations

import contextlib
import random
import socket

# Below the range from which Linux takes the ports of outgoing connections by default.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000


def free_ports(count: int, seed: int | None = None) -> list[int]:
    """Return ports that no process on this host uses now, outside the range of outgoing connections."""
    wanted = random.Random(seed).sample(
        range(LOWEST_PORT, HIGHEST_PORT), HIGHEST_PORT - LOWEST_PORT
    )
    free = (port for port in wanted if not listens(port))
    return [next(free) for _ in range(count)]


def listens(port: int) -> bool:
    """Return whether a process has the port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return True
    return False
