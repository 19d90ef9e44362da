"""Peers that stall: a DCP client that reads nothing, a replica that is stopped.

None of them may stop the writers of the bucket, fill the disk, or stay connected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from tests.support.waiting import until

pytestmark = pytest.mark.integration

GET, NOOP, SASL_AUTH = 0x00, 0x0A, 0x21
DCP_OPEN, DCP_STREAM_REQ, DCP_CONTROL = 0x50, 0x53, 0x5E
TMPFAIL = 0x86
NEVER = 2**64 - 1


class StalledReader(Wire):
    """A DCP client that opens streams and then reads nothing."""

    def __init__(self, port: int, name: bytes = b"stalled", user: bytes | None = None) -> None:
        super().__init__(port, receive_buffer=4096)
        if user is not None:
            log_in(self, user)
        assert self.ask(DCP_OPEN, name, extras=struct.pack(">II", 0, 1)).status == 0

    def control(self, key: bytes, value: bytes) -> None:
        assert self.ask(DCP_CONTROL, key, value).status == 0

    def stream(self, vbucket: int = 0) -> None:
        extras = struct.pack(">IIQQQQQ", 0, 0, 0, NEVER, 0, 0, 0)
        self.send(frame(DCP_STREAM_REQ, extras=extras, vbucket=vbucket))


def fill(writer: Wire, documents: int, value: bytes) -> Counter[int]:
    """Sets so many documents; how often each status was answered."""
    statuses: Counter[int] = Counter()
    for first in range(0, documents, 100):
        frames = [set_frame(b"k%06d" % n, value) for n in range(first, min(first + 100, documents))]
        writer.send(b"".join(frames))
        for _ in frames:
            statuses[writer.answer().status] += 1
    return statuses


def producers(writer: Wire) -> int:
    return int(writer.stats(b"dcpagg")[":total:producer_count"])


def test_a_client_that_reads_nothing_is_disconnected_by_its_noops(
    start_engine: Callable[..., Any],
) -> None:
    engine = start_engine("--vbuckets", "1")
    with Wire(engine.port) as writer, StalledReader(engine.port) as reader:
        assert fill(writer, 2000, os.urandom(10_000)) == {0: 2000}
        reader.control(b"set_noop_interval", b"1")
        reader.control(b"enable_noop", b"true")
        reader.stream()
        until(lambda: producers(writer) == 0, "the reader is still connected")


def test_a_client_without_noops_is_disconnected_when_it_reads_nothing(
    start_engine: Callable[..., Any],
) -> None:
    engine = start_engine("--vbuckets", "1", "--param", "dcp_idle_timeout_s=1")
    with Wire(engine.port) as writer, StalledReader(engine.port) as reader:
        assert fill(writer, 2000, os.urandom(10_000)) == {0: 2000}
        reader.stream()
        until(lambda: producers(writer) == 0, "the reader is still connected")


MEMORY = ("--vbuckets", "4", "--quota-mb", "64")
DOCUMENTS, VALUE = 3500, 10_000  # more than half of that quota


def overwrite(writer: Wire) -> Counter[int]:
    """Three times all documents."""
    statuses: Counter[int] = Counter()
    for _ in range(3):
        statuses += fill(writer, DOCUMENTS, os.urandom(VALUE))
    return statuses


def stale_bytes(writer: Wire) -> int:
    return int(writer.stats(b"dcp")["ep_dcp_backfill_pinned_bytes"])


def test_a_reader_that_reads_nothing_stops_no_writer(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(*MEMORY)
    with Wire(engine.port) as writer, StalledReader(engine.port) as reader:
        assert fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}
        for vbucket in range(4):
            reader.stream(vbucket)
        until(lambda: int(writer.stats(b"dcp")["ep_dcp_backfills_open"]) > 0, "no backfill")
        statuses = overwrite(writer)
        assert set(statuses) <= {0, TMPFAIL}
        # It may have to wait while memory is recovered, and is served then.
        until(lambda: fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}, "refused")
        until(lambda: stale_bytes(writer) <= (64 << 20) // 20, "old versions are kept")
        assert producers(writer) == 1


def test_a_replica_that_is_stopped_stops_no_writer(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    active = start_engine(*MEMORY)
    with Wire(active.port) as writer:
        assert fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}
        source = ("--replicate-from", f"127.0.0.1:{active.port}")
        replica = start_engine(*MEMORY, *source, "--data-dir", str(tmp_path / "replica"))
        until(lambda: producers(writer) == 1, "the replica does not connect")
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            assert set(overwrite(writer)) <= {0, TMPFAIL}
            until(lambda: fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}, "refused")
        finally:
            os.kill(replica.pid, signal.SIGCONT)


def test_a_replica_that_was_stopped_gets_everything_in_the_end(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    active = start_engine(*MEMORY, "--param", "dcp_backfill_idle_s=1")
    with Wire(active.port) as writer:
        assert fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}
        source = ("--replicate-from", f"127.0.0.1:{active.port}")
        replica = start_engine(*MEMORY, *source, "--data-dir", str(tmp_path / "replica"))
        until(lambda: producers(writer) == 1, "the replica does not connect")
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            overwrite(writer)
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        high = writer.stats(b"vbucket-seqno")
        seqnos = {key: value for key, value in high.items() if key.endswith(":high_seqno")}
        assert len(seqnos) == 4
        with Wire(replica.port) as reader:
            until(
                lambda: seqnos.items() <= reader.stats(b"vbucket-seqno").items(),
                "the replica does not get everything",
            )


def test_unread_backfills_pin_few_files(start_engine: Callable[..., Any]) -> None:
    flags = (
        "--vbuckets", "1", "--shards", "1", "--quota-mb", "64",
        "--param", "rocksdb_write_buffer_mb=1", "--param", "rocksdb_compression=none",
    )  # fmt: skip
    engine = start_engine(*flags, kind="persistent")
    readers: list[StalledReader] = []
    with Wire(engine.port) as writer:
        for number in range(8):
            assert fill(writer, 1000, os.urandom(VALUE)) == {0: 1000}
            until(lambda: int(writer.stats()["ep_queue_size"]) == 0, "not persisted")
            readers.append(StalledReader(engine.port, b"reader-%d" % number))
            readers[-1].stream()
        # A twentieth of the quota.
        until(lambda: stale_bytes(writer) <= (64 << 20) // 20, "files are kept")
        assert producers(writer) == len(readers)
        for reader in readers:
            reader.__exit__()


def test_the_open_backfills_of_a_connection_are_bounded(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(*MEMORY, "--param", "dcp_backfills_per_connection=2")
    with Wire(engine.port) as writer, StalledReader(engine.port) as reader:
        assert fill(writer, DOCUMENTS, os.urandom(VALUE)) == {0: DOCUMENTS}
        for vbucket in range(4):
            reader.stream(vbucket)
        seen = set()

        def oldest_is_shown() -> bool:
            stats = writer.stats(b"dcp")
            seen.add(int(stats["ep_dcp_backfills_open"]))
            return int(stats["ep_dcp_backfill_oldest_ms"]) >= 2000

        until(oldest_is_shown, "the oldest backfill has no age")
        assert max(seen) == 2


def test_connections_leave_the_store_its_files(start_engine: Callable[..., Any]) -> None:
    flags = ("--shards", "1", "--param", "rocksdb_write_buffer_mb=1")
    engine = start_engine(*flags, kind="persistent", open_files=512)
    with Wire(engine.port) as writer:
        most = int(writer.stats()["max_connections"])
        assert 0 < most < 512
        assert "only 512 files may be open" in engine.log.read_text()
        idle = [socket.create_connection(("127.0.0.1", engine.port)) for _ in range(600)]
        until(lambda: int(writer.stats()["rejected_conns"]) > 0, "all are served")
        for _ in range(3):  # each time new files
            assert fill(writer, 1000, os.urandom(VALUE)) == {0: 1000}
            until(lambda: int(writer.stats()["ep_queue_size"]) == 0, "not persisted")
        assert writer.stats()["ep_item_commit_failed"] == "0"
        for connection in idle:
            connection.close()


def test_strangers_of_one_address_displace_nobody_elsewhere(
    start_engine: Callable[..., Any],
) -> None:
    engine = start_engine("--threads", "1", "--param", "max_connections=20", users=USERS)
    here = ("127.0.0.1", engine.port)
    with Wire(engine.port) as other:
        other._sock.close()
        other._sock = socket.create_connection(here, other.timeout, ("127.0.0.2", 0))
        other.ask(NOOP)
        strangers = [socket.create_connection(here, other.timeout) for _ in range(100)]
        for stranger in strangers[:80]:
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        log_in(other, b"writer")
    for stranger in strangers:
        stranger.close()


USERS = {
    "reader": {"password": "secret", "role": "read-only"},
    "writer": {"password": "secret", "role": "read-write"},
}


def log_in(wire: Wire, user: bytes) -> None:
    assert wire.ask(SASL_AUTH, b"PLAIN", b"\0" + user + b"\0secret").status == 0


def test_a_reader_with_many_streams_stops_no_writer(start_engine: Callable[..., Any]) -> None:
    engine = start_engine("--vbuckets", "1024", "--quota-mb", "64", users=USERS)
    extras = struct.pack(">IIQQQQQ", 0, 0, 0, NEVER, 0, 0, 0)
    requests = b"".join(frame(DCP_STREAM_REQ, extras=extras, vbucket=n) for n in range(1024))
    readers: list[Wire] = []
    refused = False
    with Wire(engine.port) as writer:
        log_in(writer, b"writer")
        for _ in range(100):
            readers.append(Wire(engine.port))
            log_in(readers[-1], b"reader")
            name = b"n" * 200
            opened = readers[-1].ask(DCP_OPEN, name, extras=struct.pack(">II", 0, 1))
            if opened.status == TMPFAIL:
                refused = True
                break
            readers[-1].send(requests)
            readers[-1].send(frame(NOOP))
            while readers[-1].answer().opcode != NOOP:
                pass
        assert refused, "as many connections as it likes"
        assert fill(writer, 2000, os.urandom(VALUE)) == {0: 2000}
        assert int(writer.stats(b"memory")["mem_used"]) < 48 << 20
        other = StalledReader(engine.port, b"other", b"writer")
        other.stream()
        assert other.answer().status == 0
        other.__exit__()
    for reader in readers:
        reader.__exit__()


def test_unread_answers_keep_few_old_versions(start_engine: Callable[..., Any]) -> None:
    engine = start_engine("--vbuckets", "1", "--quota-mb", "64")
    readers: list[Wire] = []
    with Wire(engine.port) as writer:
        for number in range(30):
            assert fill(writer, 30, os.urandom(1_000_000)) == {0: 30}
            held = int(writer.stats()["conn_buffered_bytes"])
            readers.append(Wire(engine.port, receive_buffer=4096))
            readers[-1].send(b"".join(frame(GET, b"k%06d" % n) for n in range(30)))
            until(
                lambda before=held: int(writer.stats()["conn_buffered_bytes"]) > before,  # type: ignore[misc]
                f"reader {number} is not answered",
            )
        assert fill(writer, 30, os.urandom(1_000_000)) == {0: 30}
    for reader in readers:
        reader.__exit__()
