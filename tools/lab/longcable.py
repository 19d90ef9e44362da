"""Relay frames between two network interfaces with a delay and losses, as a long or bad cable does.

Run as `python -m tools.lab.longcable A B DELAY_S LOSS_PERCENT` where A and B are; it says `ready` and ends
by a signal. The kernel's netem would do the same, but many kernels come without it.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import sys
import time
from collections import deque

ETH_P_ALL = 3
PACKET_VNET_HDR = 15  # linux/if_packet.h; frames keep what the card was to do: checksums, segments
PACKET_IGNORE_OUTGOING = 23
SOL_PACKET = 263
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
LARGEST_FRAME = 1 << 17  # one of several segments is up to 64 KiB
BUFFER_BYTES = 32 << 20


def open_end(interface: str) -> socket.socket:
    """Open a raw socket on `interface`, which receives its frames and sends through it."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    end.bind((interface, ETH_P_ALL))
    return end


def relay(a: socket.socket, b: socket.socket, delay_s: float, loss: float) -> None:
    """Relay frames until the process ends. `loss` is the probability that a frame is lost."""
    dice = random.Random(1)
    under_way: deque[tuple[float, socket.socket, bytes]] = deque()
    poll = select.poll()
    other = {a.fileno(): (a, b), b.fileno(): (b, a)}
    for end in other:
        poll.register(end, select.POLLIN)
    while True:
        left_s = under_way[0][0] - time.monotonic() if under_way else None
        for end, _ in poll.poll(None if left_s is None else max(0.0, left_s * 1000)):
            here, there = other[end]
            with contextlib.suppress(OSError):  # no more there, or the cable has just been pulled
                while True:
                    frame = here.recv(LARGEST_FRAME)
                    if dice.random() >= loss:
                        under_way.append((time.monotonic() + delay_s, there, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, there, frame = under_way.popleft()
            with contextlib.suppress(OSError):  # pulled: it is lost
                there.send(frame)


def main() -> None:
    a, b, delay_s, loss_percent = sys.argv[1:]
    ends = open_end(a), open_end(b)
    print("ready", flush=True)
    relay(*ends, float(delay_s), float(loss_percent) / 100)


if __name__ == "__main__":
    main()
