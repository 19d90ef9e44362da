"""What a replica does with answers that come late, and with a history that is not its own any more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wire import Wire

from tests.support.dcp_client import LAST, ROLLBACK, STREAM_END, DcpClient
from tests.support.dcp_source import DcpSource, StreamRequest
from tests.support.waiting import until

pytestmark = pytest.mark.integration

GET, SET, DELETE = 0x00, 0x01, 0x04
NOT_MY_VBUCKET = 7
SET_VBUCKET, GET_VBUCKET, DEL_VBUCKET, SELECT = 0x3D, 0x3E, 0x3F, 0x89
ACTIVE, REPLICA, DEAD = 1, 2, 4
OLD, NEW = 77, 88
STATE_CHANGED, ROLLED_BACK = 2, 6


def session(port: int) -> Wire:
    wire = Wire(port)
    wire.hello("select_bucket")
    assert wire.ask(SELECT, b"default").status == 0
    return wire


@pytest.fixture
def source() -> Iterator[DcpSource]:
    with DcpSource() as made:
        yield made


@pytest.fixture(params=["ephemeral", "persistent"])
def replica(request: Any, source: DcpSource, start_engine: Callable[..., Any]) -> Any:
    """One vBucket that has documents 1 to 5 of the history OLD."""
    engine = start_engine(
        "--vbuckets", "1", "--replicate-from", f"127.0.0.1:{source.port}", kind=request.param
    )
    first = source.next_request()
    assert (first.start, first.vbucket) == (0, 0)
    source.accept(first, [(OLD, 0)])
    for start, end in (1, 3), (4, 5):
        send(engine, source, first, start, end, {n: b"old-%d" % n for n in range(start, end + 1)})
    return engine


def send(
    engine: Any, source: DcpSource, to: StreamRequest, start: int, end: int, keys: dict[int, bytes]
) -> None:
    """A snapshot, which the replica then has stored."""
    source.snapshot(to, start, end, keys)
    source.wait_until_read(to)
    with session(engine.port) as wire:
        until(lambda: wire.stats()["ep_queue_size"] == "0")


def reconnected(source: DcpSource) -> StreamRequest:
    source.drop()
    request = source.next_request()
    assert (request.start, request.uuid) == (5, OLD)
    return request


def results(engine: Any) -> set[bytes]:
    """The keys that the vBucket streams; none while a rollback replaces the vBucket."""
    with DcpClient(engine.port) as client:
        status = client.open_stream(flags=4).status
        if status == NOT_MY_VBUCKET:
            return set()
        assert status == 0
        return {message.key for message in client.until_end() if message.is_document}


@pytest.mark.parametrize("answer", ["rollback", "accept"])
def test_a_promotion_outlives_a_late_answer(answer: str, replica: Any, source: DcpSource) -> None:
    request = reconnected(source)
    with session(replica.port) as wire:
        assert wire.ask(SET_VBUCKET, extras=bytes([ACTIVE])).status == 0
        with DcpClient(replica.port) as client:
            promoted = client.failover_log()
        if answer == "rollback":
            source.answer(request, ROLLBACK, struct.pack(">Q", 0))
        else:
            source.accept(request, [(NEW, 5)])
        source.wait_until_read(request)
        assert wire.ask(GET_VBUCKET).value == struct.pack(">I", ACTIVE)
        for number in range(1, 6):
            key = b"old-%d" % number
            assert wire.ask(GET, key).value == b"value of " + key
        with DcpClient(replica.port) as client:
            assert client.failover_log() == promoted


def test_a_replica_keeps_what_it_shares_with_its_source(replica: Any, source: DcpSource) -> None:
    source.answer(reconnected(source), ROLLBACK, struct.pack(">Q", 3))
    again = source.next_request()
    if "persistent" in replica.process.args:
        assert (again.start, again.uuid, again.snapshot) == (3, OLD, (3, 3))
        source.accept(again, [(NEW, 3), (OLD, 0)])
        source.snapshot(again, 4, 4, {4: b"new-4"})
        expected = {b"old-1", b"old-2", b"old-3", b"new-4"}
    else:  # memory has no older versions: from the beginning
        assert again.start == 0
        source.accept(again, [(NEW, 3), (OLD, 0)])
        source.snapshot(again, 1, 4, {1: b"new-1"})
        source.snapshot(again, 4, 4, {4: b"new-4"})
        expected = {b"new-1", b"new-4"}
    source.wait_until_read(again)
    assert results(replica) == expected


def test_a_rollback_into_a_snapshot_loses_nothing_that_it_had_left_out(
    source: DcpSource, start_engine: Callable[..., Any]
) -> None:
    """The source's snapshot ended with k@5 and had left k@2 out. Its history parts at 3."""
    replica = start_engine(
        "--vbuckets", "1", "--replicate-from", f"127.0.0.1:{source.port}", kind="persistent"
    )
    first = source.next_request()
    source.accept(first, [(OLD, 0)])
    send(replica, source, first, 1, 5, {1: b"a", 3: b"b", 5: b"k"})
    source.answer(reconnected(source), ROLLBACK, struct.pack(">Q", 3))
    again = source.next_request()
    source.accept(again, [(NEW, 3), (OLD, 0)])
    history = {1: b"a", 2: b"k", 3: b"b", 4: b"c"}
    rest = {seqno: key for seqno, key in history.items() if seqno > again.start}
    source.snapshot(again, again.start + 1, 4, rest)
    source.wait_until_read(again)
    with session(replica.port) as wire:
        assert wire.ask(SET_VBUCKET, extras=bytes([ACTIVE])).status == 0
        for key in history.values():
            assert wire.ask(GET, key).value == b"value of " + key


def test_who_follows_a_replica_that_rolled_back_follows_it(
    replica: Any, source: DcpSource, start_engine: Callable[..., Any], tmp_path: Any
) -> None:
    leaf = start_engine("--vbuckets", "1", "--replicate-from", f"127.0.0.1:{replica.port}")
    until(lambda: len(results(leaf)) == 5)
    with DcpClient(replica.port) as client:
        assert client.open_stream().status == 0
        client.until_seqno(5)
        request = reconnected(source)
        source.log = [(NEW, 0), (OLD, 0)]
        source.answer(request, ROLLBACK, struct.pack(">Q", 0))
        again = source.next_request()
        assert again.start == 0
        source.accept(again, source.log)
        # The leaf has five documents: it would keep them if the replica had less.
        source.snapshot(again, 1, 6, {1: b"new-1", 6: b"new-2"})
        end = client.until_end()[-1]
        assert (end.opcode, end.status) == (STREAM_END, ROLLED_BACK)
        assert client.open_stream(start=5, uuid=OLD).status == ROLLBACK
    until(lambda: results(leaf) == {b"new-1", b"new-2"})
    with session(leaf.port) as wire:
        assert wire.stats(b"replication")["rollbacks"] == "1"


def test_a_follower_of_a_replica_learns_of_a_new_history(
    replica: Any, source: DcpSource, start_engine: Callable[..., Any]
) -> None:
    """Its source began another history: no seqno of that must be called one of the history before."""
    leaf = start_engine("--vbuckets", "1", "--replicate-from", f"127.0.0.1:{replica.port}")
    until(lambda: len(results(leaf)) == 5)
    request = reconnected(source)
    source.accept(request, [(NEW, 5), (OLD, 0)])
    source.snapshot(request, 6, 6, {6: b"new-6"})
    until(lambda: len(results(leaf)) == 6)
    with DcpClient(leaf.port) as client:
        assert client.failover_log() == [(NEW, 5), (OLD, 0)]


def test_a_follower_of_a_replica_that_has_no_history_yet_gets_one(
    source: DcpSource, start_engine: Callable[..., Any]
) -> None:
    replica = start_engine("--vbuckets", "1", "--replicate-from", f"127.0.0.1:{source.port}")
    first = source.next_request()
    leaf = start_engine("--vbuckets", "1", "--replicate-from", f"127.0.0.1:{replica.port}")
    with session(leaf.port) as wire:
        until(lambda: wire.stats(b"replication")["streams_opened"] == "1")
    source.accept(first, [(OLD, 0)])
    source.snapshot(first, 1, 1, {1: b"old-1"})
    until(lambda: results(leaf) == {b"old-1"})
    with DcpClient(leaf.port) as client:
        assert client.failover_log() == [(OLD, 0)]


def test_a_copy_that_is_discarded_under_its_stream_is_fetched_again(
    replica: Any, source: DcpSource
) -> None:
    source.accept(reconnected(source), [(OLD, 0)])
    with session(replica.port) as wire:
        for opcode, extras in (
            (SET_VBUCKET, bytes([DEAD])), (DEL_VBUCKET, b""), (SET_VBUCKET, bytes([REPLICA])),
        ):  # fmt: skip
            assert wire.ask(opcode, extras=extras).status == 0
    assert results(replica) == set()
    again = source.next_request()
    assert again.start == 0
    source.accept(again, [(OLD, 0)])
    send(replica, source, again, 1, 2, {1: b"old-1", 2: b"old-2"})
    assert results(replica) == {b"old-1", b"old-2"}
    with DcpClient(replica.port) as client:
        assert client.failover_log() == [(OLD, 0)]


def test_a_stream_that_the_source_ended_is_asked_for_again(replica: Any, source: DcpSource) -> None:
    request = reconnected(source)
    source.accept(request, [(OLD, 0)])
    source.end_stream(request, STATE_CHANGED)
    again = source.next_request()
    assert (again.start, again.uuid, again.opaque != request.opaque) == (5, OLD, True)
    source.accept(again, [(OLD, 0)])
    source.snapshot(again, 6, 6, {6: b"old-6"})
    source.wait_until_read(again)
    assert b"old-6" in results(replica)


def test_a_partial_snapshot_is_never_called_complete(replica: Any, source: DcpSource) -> None:
    request = reconnected(source)
    source.accept(request, [(OLD, 0)])
    source.snapshot(request, 6, 9, {6: b"old-6", 7: b"old-7"})
    source.wait_until_read(request)
    with DcpClient(replica.port) as client:
        assert client.open_stream(end=LAST).status == 0
        client.until_seqno(7)
        ends = [message.marker[1] for message in client.messages if not message.is_document]
        assert ends[-1] == 9
    source.drop()
    again = source.next_request()
    assert (again.start, again.snapshot) == (7, (5, 9))
    with session(replica.port) as wire:
        assert wire.ask(SET_VBUCKET, extras=bytes([ACTIVE])).status == 0
    with DcpClient(replica.port) as client:
        assert [seqno for _, seqno in client.failover_log()] == [5, 0]


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_a_copy_that_is_promoted_knows_what_its_source_had_purged(
    kind: str, start_engine: Callable[..., Any], tmp_path: Any
) -> None:
    """A client has `gone`, whose deletion was purged before the copies were made."""

    def start(name: str, *more: str) -> Any:
        directory = ("--data-dir", str(tmp_path / name))
        return start_engine("--vbuckets", "1", *directory, *more, kind=kind)

    purging = [f"--param={kind}_purge_age_s=0", "--param=ephemeral_purge_interval_s=1"]
    active = start("active", *purging)
    with session(active.port) as wire:
        for opcode, key, extras in (
            (SET, b"gone", bytes(8)), (DELETE, b"gone", b""), (SET, b"kept", bytes(8)),
        ):  # fmt: skip
            assert wire.ask(opcode, key, extras=extras).status == 0
        until(lambda: wire.stats(b"vbucket-seqno")["vb_0:purge_seqno"] == "2")
    with DcpClient(active.port) as client:
        uuid = client.failover_log()[0][0]
    if kind == "persistent":  # or the copy gets the deletion from memory
        assert active.stop() == 0
        active = start("active", *purging)
    copy = start("copy", "--replicate-from", f"127.0.0.1:{active.port}")
    leaf = start("leaf", "--replicate-from", f"127.0.0.1:{copy.port}")
    until(lambda: results(copy) == results(leaf) == {b"kept"})
    if kind == "persistent":
        assert copy.stop() == leaf.stop() == 0
        copy, leaf = start("copy"), start("leaf")
    for engine in active, copy, leaf:
        with session(engine.port) as wire:
            assert wire.ask(SET_VBUCKET, extras=bytes([ACTIVE])).status == 0
            assert wire.stats(b"vbucket-seqno")["vb_0:purge_seqno"] == "2"
        with DcpClient(engine.port) as client:
            answer = client.open_stream(start=1, uuid=uuid)
            assert (answer.status, answer.value) == (ROLLBACK, bytes(8))
