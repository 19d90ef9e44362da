"""The engine's DCP producer over real sockets, seen by a client written for these tests."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wire import Wire, set_frame

from tests.support.dcp_client import (
    CLOSE_STREAM,
    DELETE_TIMES,
    DELETION,
    DISK_ONLY,
    EXPIRATION,
    MARKER,
    MUTATION,
    ROLLBACK,
    STREAM_END,
    TO_LATEST,
    DcpClient,
    View,
)
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

GET, DELETE, HELLO, SET_VBUCKET, SELECT = 0x00, 0x04, 0x1F, 0x3D, 0x89
NOT_MY_VBUCKET, RANGE, EXISTS, ENOENT, EINVAL = 0x07, 0x22, 0x02, 0x01, 0x04
ACTIVE, REPLICA, DEAD = 1, 2, 4
DISK = 2


class Writer(Wire):
    """Stores into one vBucket and remembers what is there."""

    def __init__(self, port: int, vbucket: int = 0) -> None:
        super().__init__(port)
        self.vbucket = vbucket
        self.documents: dict[bytes, bytes] = {}
        self.hello("select_bucket")
        assert self.ask(SELECT, b"default").status == 0

    def set(self, key: bytes, value: bytes, expiry: int = 0) -> None:
        self.send(set_frame(key, value, vbucket=self.vbucket, expiry=expiry))
        assert self.answer().status == 0
        self.documents[key] = value

    def set_many(self, items: dict[bytes, bytes]) -> None:
        frames = [set_frame(key, value, vbucket=self.vbucket) for key, value in items.items()]
        self.send(b"".join(frames))
        for _ in frames:
            assert self.answer().status == 0
        self.documents.update(items)

    def delete(self, key: bytes) -> None:
        assert self.ask(DELETE, key, vbucket=self.vbucket).status == 0
        del self.documents[key]

    def set_state(self, state: int) -> None:
        answer = self.ask(SET_VBUCKET, extras=bytes([state]), vbucket=self.vbucket)
        assert answer.status == 0

    def wait_persisted(self) -> None:
        until(lambda: self.stats()["ep_queue_size"] == "0", "all is persisted")


def values(view: View) -> dict[bytes, bytes]:
    return {key: value for key, (_, value) in view.documents.items()}


@pytest.fixture(params=["ephemeral", "persistent"])
def port(request: pytest.FixtureRequest, start_engine: Callable[..., Any]) -> int:
    return int(start_engine(kind=request.param).port)


@pytest.fixture
def writer(port: int) -> Iterator[Writer]:
    with Writer(port) as made:
        yield made


def random_load(writer: Writer, operations: int, seed: int) -> int:
    """Sets, overwrites and deletes; the high seqno."""
    draw = random.Random(seed)
    for number in range(operations):
        key = b"key-%d" % draw.randrange(operations // 3)
        if key in writer.documents and draw.random() < 0.25:
            writer.delete(key)
        else:
            writer.set(key, b"value-%d" % number)
    return operations


def test_a_loaded_vbucket_arrives_in_order_and_whole(port: int, writer: Writer) -> None:
    high = random_load(writer, 600, seed=1)
    with DcpClient(port) as client:
        assert client.open_stream(end=high).status == 0
        got = client.until_end()
        view = View().apply(got)
        assert values(view) == writer.documents
        assert view.seqno == high
        assert (got[-1].opcode, got[-1].status) == (STREAM_END, 0)
        assert {message.opaque for message in got} == {1}


@pytest.mark.parametrize(
    ("kind", "flags"), [("ephemeral", 0), ("persistent", 0), ("persistent", DISK_ONLY)]
)
def test_every_document_arrives_as_raw_or_json_as_it_was_stored(
    kind: str, flags: int, start_engine: Callable[..., Any]
) -> None:
    """From the checkpoints, and from disk."""
    port = start_engine(kind=kind).port
    stored = {b"k%d" % number: number % 2 for number in range(400)}
    with Writer(port) as writer:
        writer.hello("select_bucket", "json")
        for key, datatype in stored.items():
            writer.send(set_frame(key, b'{"n":1}', datatype=datatype))
        assert {writer.answer().status for _ in stored} == {0}
        if flags == DISK_ONLY:
            writer.wait_persisted()
    with DcpClient(port) as client:
        assert client.open_stream(end=len(stored), flags=flags).status == 0
        got = [message for message in client.until_end() if message.is_document]
    assert {message.key: message.datatype for message in got} == stored


def test_what_is_written_while_streaming_arrives(port: int, writer: Writer) -> None:
    with DcpClient(port) as client:
        assert client.open_stream().status == 0
        for burst in range(5):
            writer.set_many({b"k%d" % i: b"%d-%d" % (burst, i) for i in range(200)})
            client.until_seqno((burst + 1) * 200)
        assert values(View().apply(client.messages)) == writer.documents


def test_several_vbuckets_on_one_connection(port: int) -> None:
    with DcpClient(port) as client:
        writers = [Writer(port, vbucket) for vbucket in range(4)]
        for number, writer in enumerate(writers):
            writer.set_many({b"k%d" % i: b"v%d" % number for i in range(100)})
            answer = client.open_stream(number, opaque=10 + number, end=100)
            assert answer.status == 0
        client.until(lambda got: sum(m.opcode == STREAM_END for m in got) == 4)
        for number, writer in enumerate(writers):
            mine = [m for m in client.messages if m.vbucket == number]
            assert {m.opaque for m in mine} == {10 + number}
            assert values(View().apply(mine, number)) == writer.documents
            writer.__exit__()


def test_a_stream_resumes_where_it_stopped(port: int, writer: Writer) -> None:
    writer.set_many({b"a%d" % i: b"1" for i in range(50)})
    view = View()
    with DcpClient(port) as client:
        client.open_stream(end=50)
        view.apply(client.until_end())
        uuid = client.failover_log()[0][0]
    writer.set_many({b"b%d" % i: b"2" for i in range(50)})
    writer.delete(b"a0")
    with DcpClient(port) as client:
        answer = client.open_stream(start=50, uuid=uuid, end=101)
        assert answer.status == 0
        got = client.until_end()
        assert min(m.seqno for m in got if m.is_document) == 51
        assert values(view.apply(got)) == writer.documents


def test_another_history_rolls_back(port: int, writer: Writer) -> None:
    writer.set_many({b"k%d" % i: b"v" for i in range(10)})
    with DcpClient(port) as client:
        uuid, seqno = client.failover_log()[0]
        assert seqno == 0
        foreign = client.open_stream(start=5, uuid=uuid ^ 1)
        assert (foreign.status, foreign.value) == (ROLLBACK, struct.pack(">Q", 0))
        future = client.open_stream(start=15, uuid=uuid)
        assert (future.status, future.value) == (ROLLBACK, struct.pack(">Q", 10))
        partial = client.open_stream(start=9, uuid=uuid, snapshot=(8, 20))
        assert (partial.status, partial.value) == (ROLLBACK, struct.pack(">Q", 8))
        assert client.open_stream(start=9, uuid=uuid, snapshot=(8, 10)).status == 0


def test_bad_stream_requests_are_refused(port: int, writer: Writer) -> None:
    writer.set(b"k", b"v")
    with DcpClient(port) as client:
        assert client.open_stream(start=5, end=4).status == RANGE
        assert client.open_stream(start=5, snapshot=(6, 9)).status == RANGE
        assert client.open_stream(vbucket=64).status == NOT_MY_VBUCKET
        assert client.open_stream().status == 0
        assert client.open_stream().status == EXISTS
        assert client.ask(CLOSE_STREAM, vbucket=3).status == ENOENT
        assert client.ask(CLOSE_STREAM).status == 0
        assert client.open_stream().status == 0
        assert client.control("no_such_thing", "1") == EINVAL
        assert client.control("connection_buffer_size", "many") == EINVAL
    assert writer.ask(0x53, extras=bytes(48)).status == EINVAL, "not opened as a producer"


def test_flow_control_stops_and_goes_on(port: int, writer: Writer) -> None:
    writer.set_many({b"k%03d" % i: b"x" * 100 for i in range(100)})
    with DcpClient(port) as client:
        client.flow_control(1000)
        client.acknowledging = False
        client.open_stream(end=100)
        assert client.quiet_for(0.5) or client.quiet_for(0.5)
        received = sum(message.size for message in client.messages)
        largest = max(message.size for message in client.messages)
        assert 1000 <= received < 1000 + largest, "it overshoots by at most one message"
        assert writer.stats(b"dcpagg")[":total:unacked_bytes"] == str(received)
        client.acknowledging = True
        client.acknowledge(received)
        client.until_end()
        assert values(View().apply(client.messages)) == writer.documents


def test_a_client_that_does_not_read_holds_back_bounded_memory(port: int, writer: Writer) -> None:
    with DcpClient(port) as client:
        client.open_stream(end=3000)
        for start in range(0, 3000, 100):
            writer.set_many({b"k%d" % i: b"x" * 5000 for i in range(start, start + 100)})
        until(lambda: int(writer.stats()["conn_buffered_bytes"]) > 0, "the stream has not begun")
        time.sleep(0.3)  # in which it could take more
        assert int(writer.stats()["conn_buffered_bytes"]) < 2 << 20
        client.until_end()
        assert values(View().apply(client.messages)) == writer.documents


def test_a_stream_goes_on_when_its_connection_was_blocked(
    start_engine: Callable[..., Any],
) -> None:
    """A client asks for more than it reads, and is not served until it does: then both go on."""
    port = start_engine("--param", "max_unsent_kb=256").port
    large = b"x" * 200_000
    with Writer(port) as writer, DcpClient(port) as client:
        writer.set(b"large", large)
        assert client.ask(HELLO, b"test").status == 0
        assert client.open_stream(end=2001).status == 0
        client.until_seqno(1)
        for _ in range(200):
            client.request(GET, b"large")
        until(
            lambda: int(writer.stats()["conn_slow_readers"]) > 0,
            "40 MB were taken without being read",
        )
        writer.set_many({b"k%d" % i: b"v" * 1000 for i in range(2000)})
        for _ in range(200):
            answer = client.answer()
            assert (answer.status, answer.value) == (0, large)
        client.until_end()
        assert values(View().apply(client.messages)) == writer.documents


def test_a_restarted_node_streams_from_disk(start_engine: Callable[..., Any]) -> None:
    first = start_engine(kind="persistent")
    with Writer(first.port) as writer:
        high = random_load(writer, 600, seed=2)
        documents = dict(writer.documents)
    with DcpClient(first.port) as client:
        log = client.failover_log()
    assert first.stop() == 0
    second = start_engine(kind="persistent")
    with DcpClient(second.port) as client:
        assert client.failover_log() == log, "a clean restart goes on with its history"
        assert client.open_stream(end=high).status == 0
        view = View().apply(client.until_end())
        assert values(view) == documents
        assert all(kind & DISK for _, _, kind in view.snapshots)
        with Writer(second.port) as writer:
            writer.set(b"after", b"restart")
        client.messages.clear()
        assert client.open_stream(start=high, uuid=log[0][0], end=high + 1).status == 0
        assert values(View().apply(client.until_end())) == {b"after": b"restart"}


def test_disk_only_and_to_latest_end_by_themselves(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(kind="persistent")
    with Writer(engine.port) as writer, DcpClient(engine.port) as client:
        writer.set_many({b"k%d" % i: b"v" for i in range(20)})
        writer.wait_persisted()
        for flags in (DISK_ONLY, TO_LATEST):
            client.messages.clear()
            assert client.open_stream(flags=flags).status == 0
            assert values(View().apply(client.until_end())) == writer.documents


def test_a_slow_streams_cursor_is_dropped_and_nothing_is_lost(
    start_engine: Callable[..., Any],
) -> None:
    engine = start_engine(
        "--quota-mb", "48", "--vbuckets", "1", "--param", "chk_max_items=100",
        "--param", "max_checkpoints=1000000", kind="persistent",
    )  # fmt: skip
    with Writer(engine.port) as writer, DcpClient(engine.port) as client:
        client.flow_control(1000)
        client.acknowledging = False
        client.open_stream()
        deadline = time.monotonic() + PATIENCE_S
        rounds = 0
        while int(drops(writer)) == 0:
            assert time.monotonic() < deadline, writer.stats(b"dcp")
            # Small documents that change all the time: the log grows, the bucket does not.
            writer.set_many({b"k%d" % i: b"%05d" % rounds * 200 for i in range(1000)})
            rounds += 1
            if rounds % 4 == 0:
                time.sleep(0.1)
        client.acknowledging = True
        client.acknowledge(sum(message.size for message in client.messages) or 1000)
        client.until_seqno(rounds * 1000)
        view = View().apply(client.messages)
        assert values(view) == writer.documents
        assert view.seqno == rounds * 1000


def drops(writer: Writer) -> str:
    results = writer.stats(b"dcp")
    return next((value for key, value in results.items() if key.endswith("cursor_drops")), "0")


def test_streams_end_when_the_state_changes(port: int, writer: Writer) -> None:
    writer.set(b"k", b"v")
    with DcpClient(port) as client:
        client.open_stream()
        client.until_seqno(1)
        writer.set_state(DEAD)
        end = client.until_end()[-1]
        assert end.status == 2
        assert client.open_stream().status == NOT_MY_VBUCKET


def test_a_stream_goes_on_when_the_state_is_set_to_what_it_is(port: int, writer: Writer) -> None:
    writer.set(b"k", b"v")
    with DcpClient(port) as client:
        client.open_stream()
        client.until_seqno(1)
        writer.set_state(ACTIVE)
        writer.set(b"k", b"w")
        client.until_seqno(2)
        assert all(message.opcode != STREAM_END for message in client.messages)


def test_a_name_cannot_pass_for_a_line_of_the_log(start_engine: Callable[..., Any]) -> None:
    engine = start_engine()
    with DcpClient(engine.port, name="x\n[error] forged\x1b[31m") as client:
        assert client.control("set_noop_interval", "1") == 0
        assert client.control("enable_noop", "true") == 0
        client.answering_noops = False
        assert client.at_end(timeout=60)
    log = engine.log.read_text()
    assert "x?[error] forged?[31m" in log
    assert "\x1b" not in log


def test_closing_a_stream(port: int, writer: Writer) -> None:
    writer.set(b"k", b"v")
    with DcpClient(port) as client:
        client.open_stream()
        client.until_seqno(1)
        assert client.ask(CLOSE_STREAM).status == 0
        writer.set(b"k", b"w")
        assert client.quiet_for(0.3)
        assert client.control("send_stream_end_on_client_close_stream", "true") == 0
        client.open_stream()
        assert client.ask(CLOSE_STREAM).status == 0
        assert client.until_end()[-1].status == 1


def test_deletions_and_expirations(port: int, writer: Writer) -> None:
    before = int(time.time())
    writer.set(b"deleted", b"v")
    writer.delete(b"deleted")
    writer.set(b"expires", b"v", expiry=1)
    with DcpClient(port, flags=DELETE_TIMES) as client:
        assert client.control("enable_expiry_opcode", "true") == 0
        client.open_stream()
        client.until_seqno(3)
        until(  # the look makes the expiration
            lambda: writer.ask(0x00, b"expires").status == ENOENT, "it expires"
        )
        client.until_seqno(4)
        deletion = next(m for m in client.messages if m.opcode == DELETION)
        expiration = next(m for m in client.messages if m.opcode == EXPIRATION)
        assert len(deletion.extras) == 21
        assert before <= struct.unpack_from(">I", deletion.extras, 16)[0] <= time.time()
        assert expiration.key == b"expires"
        assert next(m.opcode for m in client.messages if m.key == b"expires") == MUTATION
        assert client.messages[0].opcode == MARKER


def test_noops_are_sent_and_their_absence_ends_the_connection(port: int) -> None:
    with DcpClient(port) as client:
        assert client.control("set_noop_interval", "1") == 0
        assert client.control("enable_noop", "true") == 0
        while client.noops < 2:  # the test's time-out ends this
            client.quiet_for(0.5)
        client.answering_noops = False
        assert client.at_end()


def test_statistics(port: int, writer: Writer) -> None:
    writer.set_many({b"k%d" % i: b"v" for i in range(10)})
    with DcpClient(port, name="watcher") as client:
        client.open_stream()
        client.until_seqno(10)
        stats = writer.stats(b"dcp")
        name = next(key.removesuffix(":type") for key in stats if key.endswith(":watcher:type"))
        assert stats[f"{name}:num_streams"] == "1"
        assert stats[f"{name}:stream_0_last_sent_seqno"] == "10"
        assert stats[f"{name}:stream_0_state"] == "in-memory"
        assert writer.stats(b"dcpagg")[":total:producer_count"] == "1"
    until(lambda: writer.stats(b"dcpagg")[":total:producer_count"] == "0", "no producer is left")


@pytest.mark.parametrize("name", ["brief", "a name that takes memory of its own"])
def test_a_connection_that_is_gone_changes_no_memory(name: str, port: int, writer: Writer) -> None:
    writer.set(b"k", b"v")

    def connect(times: int) -> None:
        for number in range(times):
            with DcpClient(port, name=f"{name}-{number}") as client:
                client.open_stream()
        until(
            lambda: writer.stats(b"dcpagg")[":total:producer_count"] == "0", "no producer is left"
        )

    def used() -> int:
        return int(writer.stats(b"memory")["mem_used"])

    def change() -> int:
        before = used()
        connect(200)
        return abs(used() - before)

    # Lists grow once, by the most connections that were there at a time, and the last ones are freed after they are
    # counted. What each connection keeps is in every change.
    connect(20)
    until(lambda: change() < 3000, "closed connections keep memory")
