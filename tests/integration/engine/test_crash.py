"""What the engine reported as persisted survives SIGKILL at any moment, again and again.

A writer keeps setting and deleting keys and notes what was acknowledged. The settings check of persistence is the
engine's own
word: STAT's ep_queue_size was 0 in an answer to a request sent after the acknowledgement. Values carry a version, so
after a restart each key must have the version that was reported, or a later one that had at least been sent.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from tests.support.dcp_client import STREAM_END, TO_LATEST, DcpClient
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

GET, DELETE, SET_VBUCKET = 0x00, 0x04, 0x3D
ACTIVE, REPLICA = 1, 2
VBUCKETS = 8
OK, ENOENT = 0, 1
KEYS = 600
BATCH = 50
REST_S = 0.02  # between two batches, at first


def value_of(key: int, version: int) -> bytes:
    return b"%d:%d:" % (key, version) + b"x" * (version * 37 % 300)


def store(wire: Wire, key: bytes, value: bytes) -> int:
    wire.send(set_frame(key, value))
    return wire.answer().status


class History:
    """What was sent and acknowledged. Version 0 is "not there"; deletions are versions too."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: dict[int, int] = {}
        self.acknowledged: dict[int, int] = {}
        self.persisted: dict[int, int] = {}
        self.deletions: set[tuple[int, int]] = set()

    def next_version(self, key: int, delete: bool) -> int:
        with self.lock:
            version = self.sent.get(key, 0) + 1
            self.sent[key] = version
            if delete:
                self.deletions.add((key, version))
            return version

    def seen(self, keys: list[tuple[int, int]]) -> None:
        with self.lock:
            self.acknowledged.update(keys)


class Writer(threading.Thread):
    """Pipelines batches of random sets and deletes until its connection dies or it is asked to stop."""

    def __init__(self, port: int, history: History, seed: int, keys: range = range(KEYS)) -> None:
        super().__init__(daemon=True)
        self.port, self.history, self.random = port, history, random.Random(seed)
        self.keys = keys
        self.stop = threading.Event()
        self.rest = threading.Event()
        self.batches = 0
        self.problem: str | None = None

    def batch(self, wire: Wire) -> None:
        requests, keys = [], []
        for key in self.random.sample(self.keys, BATCH):
            delete = self.random.random() < 0.2
            version = self.history.next_version(key, delete)
            name = b"crash-%d" % key
            requests.append(
                frame(DELETE, name) if delete else set_frame(name, value_of(key, version))
            )
            keys.append((key, version))
        wire.send(b"".join(requests))
        for _ in requests:
            status = wire.answer().status
            if status not in (OK, ENOENT):
                self.problem = f"status {status:#x}"
        self.history.seen(keys)
        self.batches += 1

    def end(self) -> None:
        """Returns when it has ended, by itself or because its engine was killed."""
        self.stop.set()
        self.join(timeout=PATIENCE_S)
        assert self.problem is None

    def run(self) -> None:
        try:
            with Wire(self.port) as wire:
                rest = REST_S
                while not self.stop.is_set():
                    self.batch(wire)
                    if self.rest.is_set():
                        time.sleep(rest)
                        rest *= 1.5  # a slow disk takes longer for a batch
                    else:
                        rest = REST_S
        except (EOFError, OSError):
            pass  # the engine was killed


def wait_for_a_report(port: int, history: History, seconds: float = PATIENCE_S) -> None:
    """Returns once the engine has reported that all that was acknowledged before is persisted."""
    deadline = time.monotonic() + seconds
    with Wire(port) as wire:
        while True:
            with history.lock:
                before = dict(history.acknowledged)
            if wire.stats()["ep_queue_size"] == "0":
                with history.lock:
                    history.persisted = before
                return
            assert time.monotonic() < deadline, "the queue was never empty"


def check(port: int, history: History) -> None:
    """Compares every key with its history."""
    with Wire(port) as wire:
        for key in range(KEYS):
            answer = wire.ask(GET, b"crash-%d" % key)
            least, most = history.persisted.get(key, 0), history.sent.get(key, 0)
            allowed = range(least, most + 1)
            gone = least == 0 or any((key, version) in history.deletions for version in allowed)
            if answer.status == ENOENT:
                assert gone, f"key {key}: persisted version {least} is lost"
                continue
            assert answer.status == OK
            version = int(answer.value.split(b":")[1])
            assert version in allowed, f"key {key}: version {version} not in {least}..{most}"
            assert (key, version) not in history.deletions
            assert answer.value == value_of(key, version)


def kill(engine: Any) -> None:
    engine.process.kill()
    engine.process.wait(timeout=PATIENCE_S)


def forget_what_was_not_stored(history: History) -> None:
    """After a check: later versions of the lost ones may never come back, earlier ones neither."""
    history.acknowledged = dict(history.persisted)


@pytest.mark.parametrize(
    "lives", [6, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_sigkill_in_mid_load_loses_nothing_reported_persisted(
    lives: int, start_engine: Callable[..., Any]
) -> None:
    history = History()
    moments = random.Random(20240607)
    for life in range(lives):
        engine = start_engine(kind="persistent")
        check(engine.port, history)
        forget_what_was_not_stored(history)
        writer = Writer(engine.port, history, seed=life)
        writer.start()
        until(lambda writer=writer: writer.batches > 3, "the writer writes")
        writer.rest.set()  # the queue gets empty between two batches
        wait_for_a_report(engine.port, history)
        writer.rest.clear()
        time.sleep(moments.uniform(0.0, 0.5))
        kill(engine)
        writer.stop.set()
        writer.join(timeout=PATIENCE_S)
        assert writer.problem is None
        assert history.persisted, "nothing was ever reported persisted: the test checks nothing"
    final = start_engine(kind="persistent")
    check(final.port, history)
    assert final.stop() == 0


def replicated(source: int, replica: int, history: History, seconds: float = PATIENCE_S) -> None:
    """Returns once the replica has everything that was acknowledged before, and has stored it."""
    deadline = time.monotonic() + seconds
    with history.lock:
        before = dict(history.acknowledged)
    with Wire(source) as left, Wire(replica) as right:
        wanted = left.stats()["curr_items"]
        while not (
            right.stats(b"replication")["connected"] == "true"
            and right.stats()["curr_items"] == wanted
            and seqnos(source) == seqnos(replica)
            and right.stats()["ep_queue_size"] == "0"
        ):
            assert time.monotonic() < deadline, "the replica never had everything"
            time.sleep(0.05)
    history.persisted = before


def documents(port: int) -> dict[tuple[int, bytes], tuple[int, int, int, bytes]]:
    """Seqno, opcode, CAS and value of each key, by vBucket; deletions as well."""
    with DcpClient(port) as client:
        for vbucket in range(VBUCKETS):
            assert client.open_stream(vbucket, flags=TO_LATEST).status == 0
        client.until(lambda got: sum(m.opcode == STREAM_END for m in got) == VBUCKETS, timeout=60)
        return {
            (message.vbucket, message.key): (
                message.seqno, message.opcode, message.cas, message.value,
            )
            for message in client.messages
            if message.is_document
        }  # fmt: skip


def seqnos(port: int) -> list[int]:
    """What an update of every vBucket's stream to its latest seqno ends with."""
    last = [0] * VBUCKETS
    for (vbucket, _), (seqno, *_) in documents(port).items():
        last[vbucket] = max(last[vbucket], seqno)
    return last


def set_states(port: int, state: int) -> None:
    with Wire(port) as wire:
        for vbucket in range(VBUCKETS):
            assert wire.ask(SET_VBUCKET, extras=bytes([state]), vbucket=vbucket).status == OK


@pytest.mark.parametrize(
    "lives", [6, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_sigkill_of_the_active_node_in_mid_write_and_its_return_as_a_replica(
    lives: int, start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """Two lives in three it has more than the replica that takes over: it must roll back.

    In one of them the surplus replaces what it has stored, in the other it is all new keys.
    """
    history = History()
    moments = random.Random(20251125)

    def start(node: int, source: Any = None) -> Any:
        follow = () if source is None else ("--replicate-from", f"127.0.0.1:{source.port}")
        return start_engine(
            "--vbuckets", str(VBUCKETS), "--data-dir", str(tmp_path / f"node-{node}"), *follow,
            kind="persistent",
        )  # fmt: skip

    active = start(0)
    replica = start(1, active)
    rolled_back: list[int] = []
    for life in range(lives):
        old, heir = life % 2, (life + 1) % 2
        cut_off, new_keys = life % 3 != 0, life % 3 == 2
        writer = Writer(active.port, history, seed=2 * life)
        writer.start()
        time.sleep(moments.uniform(0.1, 0.4))
        if new_keys:
            writer.end()
            replicated(active.port, replica.port, history)
        if cut_off:
            kill(replica)
        if new_keys:
            first = KEYS + life * 1_000_000
            writer = Writer(active.port, history, life, range(first, first + 1_000_000))
            writer.rest.set()
            writer.start()
        if cut_off:
            time.sleep(moments.uniform(0.3, 0.5))
        kill(active)
        writer.end()
        if cut_off:
            replica = start(heir)
        set_states(replica.port, ACTIVE)
        check(replica.port, history)
        forget_what_was_not_stored(history)
        active, replica = replica, start(old, replica)
        writer = Writer(active.port, history, seed=2 * life + 1)
        writer.start()
        set_states(replica.port, REPLICA)
        time.sleep(moments.uniform(0.0, 0.3))
        writer.end()
        replicated(active.port, replica.port, history)
        assert documents(replica.port) == documents(active.port)
        check(active.port, history)
        backs = re.findall(r"another history: back to seqno (\d+)", replica.log.read_text())
        rolled_back += [int(seqno) for seqno in backs]
        assert backs or not cut_off, "it had nothing to roll back: the test checks nothing"
    assert 0 in rolled_back, "what it had replaced cannot come back: from the beginning"
    assert any(rolled_back), "new keys alone can be taken away"


def test_a_version_that_the_old_active_never_stored_comes_back_to_it(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """It had replaced the version in memory, before a flush; the copy that took over has it."""

    def start(node: int, *more: str) -> Any:
        directory = ("--data-dir", str(tmp_path / f"node-{node}"))
        return start_engine("--vbuckets", str(VBUCKETS), *directory, *more, kind="persistent")

    def stored(engine: Any) -> dict[bytes, tuple[int, int, int, bytes]]:
        return {key: document for (_, key), document in documents(engine.port).items()}

    history = History()
    active = start(0, "--param", "flusher_interval_ms=3000")
    replica = start(1, "--replicate-from", f"127.0.0.1:{active.port}")
    with Wire(active.port) as wire:
        assert store(wire, b"first", b"1") == OK
        wait_for_a_report(active.port, history)  # the next flush is in three seconds
        assert store(wire, b"k", b"older") == OK
        until(lambda: b"k" in stored(replica), "the replica has it")
        wait_for_a_report(replica.port, history)
        kill(replica)
        assert store(wire, b"k", b"newer") == OK
        wait_for_a_report(active.port, history)
    kill(active)
    replica = start(1)
    set_states(replica.port, ACTIVE)
    old = start(0, "--replicate-from", f"127.0.0.1:{replica.port}")
    set_states(old.port, REPLICA)
    until(lambda: "another history" in old.log.read_text(), "it rolls back")
    with Wire(replica.port) as wire:
        assert store(wire, b"last", b"1") == OK
    until(lambda: b"last" in stored(old), "it follows the new active node")
    had = stored(old)
    assert had == stored(replica)
    assert had[b"k"][-1] == b"older"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_sigkill_of_the_active_node_and_promotion_of_its_replica(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """The replica takes over, a new one follows it, and so on; each is also killed and restarted once."""
    history = History()
    flags = ("--vbuckets", str(VBUCKETS))
    active = start_engine(*flags, "--data-dir", str(tmp_path / "node-0"), kind="persistent")
    for life in range(10):
        directory = ("--data-dir", str(tmp_path / f"node-{life + 1}"))
        follow = ("--replicate-from", f"127.0.0.1:{active.port}")
        replica = start_engine(*flags, *directory, *follow, kind="persistent")
        writer = Writer(active.port, history, seed=life)
        writer.start()
        until(lambda writer=writer: writer.batches > 3, "the writer writes")
        kill(replica)  # in the middle of what it receives
        replica = start_engine(*flags, *directory, *follow, kind="persistent")
        time.sleep(0.2)
        writer.stop.set()
        writer.join(timeout=PATIENCE_S)
        assert writer.problem is None
        replicated(active.port, replica.port, history)
        kill(active)
        set_states(replica.port, ACTIVE)
        check(replica.port, history)
        forget_what_was_not_stored(history)
        wait_for_a_report(replica.port, history)
        kill(replica)
        active = start_engine(*flags, *directory, kind="persistent")
        check(active.port, history)
    assert active.stop() == 0


def test_sigkill_during_warm_up(
    start_engine: Callable[..., Any], kv_engine: Path, tmp_path: Path
) -> None:
    history = History()
    engine = start_engine(kind="persistent")
    writer = Writer(engine.port, history, seed=1)
    writer.start()
    until(lambda: writer.batches > 3, "the writer writes")
    writer.stop.set()
    writer.join(timeout=PATIENCE_S)
    wait_for_a_report(engine.port, history)
    kill(engine)
    for delay in (0.0, 0.005, 0.02, 0.05):
        process = subprocess.Popen(
            [str(kv_engine), "--port", "0", "--bucket-type", "persistent", "--vbuckets", "64",
             "--quota-mb", "512", "--data-dir", str(tmp_path / "data")],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(delay)
        process.kill()
        process.wait(timeout=PATIENCE_S)
    again = start_engine(kind="persistent")
    check(again.port, history)


def test_a_clean_stop_stores_what_was_never_reported(start_engine: Callable[..., Any]) -> None:
    history = History()
    engine = start_engine(kind="persistent")
    writer = Writer(engine.port, history, seed=2)
    writer.start()
    until(lambda: writer.batches > 3, "the writer writes")
    writer.stop.set()
    writer.join(timeout=PATIENCE_S)
    assert engine.stop() == 0
    history.persisted = dict(history.acknowledged)
    again = start_engine(kind="persistent")
    check(again.port, history)
    with Wire(again.port) as wire:
        assert wire.stats(b"warmup")["ep_warmup_clean_stop"] == "true"


def test_sigkill_under_pillowfight(start_engine: Callable[..., Any], kv_engine: Path) -> None:
    """The same with the real load generator next to a few known keys: a busy flusher must not lose them."""
    pillowfight = kv_engine.parent / "pillowfight"
    if not pillowfight.is_file():
        pillowfight = kv_engine.parent.parent / "load" / "pillowfight"
    if not pillowfight.is_file():
        pytest.fail("pillowfight is not built beside kv_engine")
    history = History()
    for life in range(3):
        engine = start_engine(kind="persistent")
        check(engine.port, history)
        forget_what_was_not_stored(history)
        load = subprocess.Popen(
            [str(pillowfight), "--host", "127.0.0.1", "--port", str(engine.port), "--num-items", "20000",
             "--set-pct", "80", "--vbuckets", "64", "--duration", "30", "--min-size", "256", "--max-size", "256"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(0.5)
            with Wire(engine.port) as wire:
                Writer(engine.port, history, seed=life).batch(wire)
            load.terminate()  # the queue never gets empty under this load; the kill comes while it drains or after
            load.wait(timeout=PATIENCE_S)
            wait_for_a_report(engine.port, history)
        finally:
            load.kill()
            load.wait(timeout=PATIENCE_S)
        kill(engine)
    last = start_engine(kind="persistent")
    check(last.port, history)
