"""Bad customers for a while, honest ones next to them; afterwards the engine holds what it held before.

A round is a time with all customers at once, then none: connections, file descriptors, mem_used and RSS come back to
their level. The first round is not judged: allocators keep what they once had.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from tests.support.dcp_client import DcpClient
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

GET, DELETE, NOOP = 0x00, 0x04, 0x0A
VBUCKETS = 16
KEYS = 400  # that honest customers share
LARGE = 100_000  # bytes of the document that slow readers ask for
SLACK = 16 << 20  # bytes of RSS that a level may differ by: what allocators happen to keep
GONE = (OSError, EOFError)  # the engine ended a connection, as it may
NAMES = itertools.count()
PARAMETERS = {
    "max_connections": "4000",
    "max_buffered_mb": "64",
    "chk_period_ms": "200",
    "chk_remover_ms": "200",
    "idle_partial_s": "2",
    "ephemeral_purge_age_s": "1",
    "ephemeral_purge_interval_s": "1",
}


@dataclass
class Fair:
    """A round's customers, and what came of it."""

    port: int
    crowd: int
    closed: threading.Event = field(default_factory=threading.Event)
    operations: int = 0
    streamed: int = 0
    dropped: int = 0
    problems: list[BaseException] = field(default_factory=list)

    def waits(self, seconds: float) -> bool:
        """True when the round ended in that time."""
        return self.closed.wait(seconds)


Customer = Callable[[Fair, random.Random], None]


def honest(fair: Fair, chance: random.Random) -> None:
    """Finds what it has written, whatever others do."""
    mine = b"honest-%d" % next(NAMES)
    with Wire(fair.port, timeout=60) as wire:
        while not fair.closed.is_set():
            picked = chance.sample(range(KEYS), 50)
            values = [chance.randbytes(500) for _ in picked]
            wire.send(
                b"".join(
                    set_frame(b"shared-%d" % key, value, vbucket=key % VBUCKETS)
                    for key, value in zip(picked, values, strict=True)
                )
            )
            assert {wire.answer().status for _ in picked} == {0}
            for key, value in zip(picked[:5], values, strict=False):
                own = b"%b-%d" % (mine, key)
                wire.send(set_frame(own, value))
                assert wire.answer().status == 0
                assert wire.ask(GET, own).value == value
                assert wire.ask(DELETE, own).status == 0
            fair.operations += len(picked) + 3 * 5


def crowd(fair: Fair, chance: random.Random) -> None:
    """Connections without end that hardly ever ask for anything."""
    wires = [Wire(fair.port) for _ in range(fair.crowd)]
    try:
        while not fair.waits(0.002):
            at = chance.randrange(len(wires))
            if chance.random() < 0.5:
                wires[at]._sock.close()
                wires[at] = Wire(fair.port)
            assert wires[at].ask(NOOP).status == 0
    finally:
        for wire in wires:
            wire._sock.close()


def slow_reader(fair: Fair, chance: random.Random) -> None:
    """Asks for megabytes, takes some bytes of them now and then, and leaves."""
    while not fair.closed.is_set():
        with Wire(fair.port, receive_buffer=4096) as wire:
            try:
                wire.send_what_fits(frame(GET, b"large") * 200, 0.2)
                for _ in range(chance.randrange(30)):
                    wire.read(chance.randrange(1, 2000))
                    if fair.waits(0.02):
                        return
            except GONE:
                fair.dropped += 1


def half_frames(fair: Fair, chance: random.Random) -> None:
    """Begins a request and leaves, politely or not, or stays until it is thrown out."""
    while not fair.closed.is_set():
        with Wire(fair.port) as wire:
            size = chance.choice([10, 5000, 900_000])
            whole = set_frame(b"half", chance.randbytes(size))
            try:
                wire.send(whole[: chance.randrange(1, len(whole))])
                if fair.waits(chance.choice([0.0, 0.05, 3.0])):
                    return
                if chance.random() < 0.5:  # a reset instead of an end
                    wire._sock.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
            except GONE:
                fair.dropped += 1


def noise(fair: Fair, chance: random.Random) -> None:
    """Any bytes; some look like requests."""
    while not fair.waits(0.01):
        with Wire(fair.port) as wire:
            data = chance.randbytes(chance.randrange(1, 4096))
            try:
                wire.send(data if chance.random() < 0.5 else b"\x80" + data)
                wire._sock.settimeout(0.05)
                if wire._sock.recv(4096) == b"":
                    fair.dropped += 1
            except TimeoutError:
                pass
            except GONE:
                fair.dropped += 1


def follower(fair: Fair, chance: random.Random) -> None:
    """DCP: streams of all vBuckets, read for a while or hardly, and dropped."""
    while not fair.closed.is_set():
        try:
            with DcpClient(fair.port, f"soak-{next(NAMES)}") as client:
                client.flow_control(chance.choice([2000, 200_000]))
                client.acknowledging = chance.random() < 0.7
                for vbucket in range(VBUCKETS):
                    assert client.open_stream(vbucket).status == 0
                until = time.monotonic() + chance.uniform(0, 1)
                while time.monotonic() < until and not fair.closed.is_set():
                    client.quiet_for(0.05)
                fair.streamed += sum(message.is_document for message in client.messages)
        except GONE:
            fair.dropped += 1


CUSTOMERS: tuple[Customer, ...] = (
    honest, honest, crowd, slow_reader, slow_reader, half_frames, half_frames, noise, follower, follower,
)  # fmt: skip


@contextmanager
def held(fair: Fair, seed: int) -> Iterator[None]:
    """All customers, each on a thread of its own; gone at the end."""

    def visit(customer: Customer, chance: random.Random) -> None:
        try:
            customer(fair, chance)
        except BaseException as problem:  # noqa: BLE001 - the test raises it
            fair.problems.append(problem)
            fair.closed.set()

    threads = [
        threading.Thread(target=visit, args=(customer, random.Random(seed * 100 + n)), daemon=True)
        for n, customer in enumerate(CUSTOMERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        fair.closed.set()
        for thread in threads:
            thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    for problem in fair.problems:
        raise problem


@dataclass(frozen=True)
class Level:
    descriptors: int
    mem_used: int
    rss: int


def settled(engine: Any, seconds: float = PATIENCE_S) -> Level:
    """Once nobody but us is connected and checkpoints are gone; `mem_used` has come to rest then."""
    deadline = time.monotonic() + seconds
    with Wire(engine.port) as wire:
        mem_used, before = 0, -1
        while True:
            stats = wire.stats() | wire.stats(b"memory")
            mem_used = int(stats["mem_used"])
            alone = int(stats["curr_connections"]) == 1 and stats["ep_queue_size"] == "0"
            if alone and mem_used == before:
                break
            assert time.monotonic() < deadline, f"never at rest: {stats}"
            before = mem_used if alone else -1
            time.sleep(0.5)
        links = [link.readlink() for link in Path(f"/proc/{engine.pid}/fd").iterdir()]
        descriptors = sum(not link.is_absolute() for link in links)  # the store's files come and go
    return Level(descriptors, mem_used, engine.rss())


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rounds", "seconds", "connections"),
    [
        ("ephemeral", 4, 2, 200),
        pytest.param(
            "persistent", 45, 36, 2000, marks=[pytest.mark.long, pytest.mark.timeout(3600)]
        ),
    ],
)
def test_bad_customers_leave_nothing_behind(
    kind: str, rounds: int, seconds: float, connections: int, start_engine: Callable[..., Any]
) -> None:
    parameters = [word for pair in PARAMETERS.items() for word in ("--param", "=".join(pair))]
    engine = start_engine("--vbuckets", str(VBUCKETS), *parameters, kind=kind)
    with Wire(engine.port) as wire:
        wire.send(set_frame(b"large", b"v" * LARGE))
        assert wire.answer().status == 0
    levels = []
    for number in range(rounds):
        fair = Fair(engine.port, connections)
        with held(fair, seed=number):
            fair.waits(seconds)
        assert fair.operations > 100, "the honest ones came to nothing"
        assert fair.streamed > 100
        assert fair.dropped > 0
        levels.append(settled(engine))
        print(f"round {number}: {levels[-1]}, {fair}", flush=True)
    judged = levels[1:]
    third = max(1, len(judged) // 3)
    early, late = judged[:third], judged[-third:]
    assert {level.descriptors for level in levels} == {levels[0].descriptors}
    first, last = (median(level.mem_used for level in some) for some in (early, late))
    assert last == pytest.approx(first, abs=64_000), levels  # less is a fault as well
    first, last = (median(level.rss for level in some) for some in (early, late))
    assert last <= first + SLACK, levels
    assert engine.stop() == 0
