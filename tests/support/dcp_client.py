"""A DCP client for tests, written from the protocol alone: it opens streams and keeps all messages in order."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from tests.support.waiting import PATIENCE_S

HEADER = struct.Struct(">BBHBBHIIQ")
OPEN, CLOSE_STREAM, STREAM_REQ, FAILOVER_LOG = 0x50, 0x52, 0x53, 0x54
STREAM_END, MARKER, MUTATION, DELETION, EXPIRATION = 0x55, 0x56, 0x57, 0x58, 0x59
NOOP, BUFFER_ACK, CONTROL = 0x5C, 0x5D, 0x5E
PRODUCER, DELETE_TIMES = 1, 0x20
DISK_ONLY, TO_LATEST = 2, 4
LAST = (1 << 64) - 1
ROLLBACK = 0x23


@dataclass(frozen=True)
class Message:
    """A frame that the producer sent without a request."""

    opcode: int
    vbucket: int
    opaque: int
    cas: int
    extras: bytes
    key: bytes
    value: bytes
    size: int
    datatype: int = 0

    @property
    def seqno(self) -> int:
        return int(struct.unpack_from(">Q", self.extras)[0])

    @property
    def marker(self) -> tuple[int, int, int]:
        """Return the seqno at which the client is consistent, the last seqno, and the type."""
        start, end, kind = struct.unpack(">QQI", self.extras)
        return start, end, kind

    @property
    def status(self) -> int:
        return int(struct.unpack(">I", self.extras)[0])

    @property
    def is_document(self) -> bool:
        return self.opcode in (MUTATION, DELETION, EXPIRATION)


@dataclass(frozen=True)
class Answer:
    opcode: int
    status: int
    opaque: int
    value: bytes


@final
class DcpClient:
    """A connection, which acknowledges every byte at once unless configured otherwise."""

    def __init__(
        self, port: int, name: str = "test", *, flags: int = 0, timeout: float = PATIENCE_S
    ) -> None:
        self.acknowledging = False
        self.answering_noops = True
        self.messages: list[Message] = []
        self.noops = 0
        self._answers: list[Answer] = []
        self._buffer = b""
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._timeout = timeout
        answer = self.ask(OPEN, name.encode(), extras=struct.pack(">II", 0, PRODUCER | flags))
        assert answer.status == 0, answer

    def __enter__(self) -> DcpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def control(self, key: str, value: str) -> int:
        return self.ask(CONTROL, key.encode(), value.encode()).status

    def flow_control(self, size: int) -> None:
        assert self.control("connection_buffer_size", str(size)) == 0
        self.acknowledging = True

    def open_stream(
        self,
        vbucket: int = 0,
        *,
        start: int = 0,
        end: int = LAST,
        uuid: int = 0,
        snapshot: tuple[int, int] | None = None,
        flags: int = 0,
        opaque: int = 1,
    ) -> Answer:
        first, last = snapshot or (start, start)
        extras = struct.pack(">IIQQQQQ", flags, 0, start, end, uuid, first, last)
        return self.ask(STREAM_REQ, extras=extras, vbucket=vbucket, opaque=opaque)

    def failover_log(self, vbucket: int = 0) -> list[tuple[int, int]]:
        answer = self.ask(FAILOVER_LOG, vbucket=vbucket)
        assert answer.status == 0
        return parse_log(answer.value)

    def acknowledge(self, count: int) -> None:
        self._send(BUFFER_ACK, extras=struct.pack(">I", count))

    def ask(
        self,
        opcode: int,
        key: bytes = b"",
        value: bytes = b"",
        *,
        extras: bytes = b"",
        vbucket: int = 0,
        opaque: int = 7,
    ) -> Answer:
        """Send a request and return its answer; earlier messages are kept."""
        self._send(opcode, key, value, extras, vbucket, opaque)
        return self.answer()

    def request(self, opcode: int, key: bytes = b"", *, vbucket: int = 0) -> None:
        """Send a request without waiting for its answer."""
        self._send(opcode, key, vbucket=vbucket)

    def answer(self) -> Answer:
        """Return the next answer; earlier messages are kept."""
        while not self._answers:
            assert self._receive(self._timeout), "no answer"
        return self._answers.pop(0)

    def until(
        self, done: Callable[[list[Message]], bool], timeout: float = PATIENCE_S
    ) -> list[Message]:
        """Receive until `done` is true of all messages so far."""
        while not done(self.messages):
            assert self._receive(timeout), f"nothing more after {len(self.messages)} messages"
        return self.messages

    def until_end(self, timeout: float = PATIENCE_S) -> list[Message]:
        return self.until(lambda got: bool(got) and got[-1].opcode == STREAM_END, timeout)

    def until_seqno(self, seqno: int, timeout: float = PATIENCE_S) -> list[Message]:
        return self.until(
            lambda got: bool(got) and got[-1].is_document and got[-1].seqno >= seqno, timeout
        )

    def quiet_for(self, seconds: float) -> bool:
        """Return whether nothing arrives for this time."""
        return not self._receive(seconds)

    def at_end(self, timeout: float = PATIENCE_S) -> bool:
        """Return whether the server closes the connection in time."""
        self._sock.settimeout(timeout)
        try:
            while chunk := self._sock.recv(65536):
                self._take(chunk)
            return True
        except TimeoutError:
            return False

    def _send(
        self,
        opcode: int,
        key: bytes = b"",
        value: bytes = b"",
        extras: bytes = b"",
        vbucket: int = 0,
        opaque: int = 0,
        magic: int = 0x80,
    ) -> None:
        body = extras + key + value
        head = HEADER.pack(magic, opcode, len(key), len(extras), 0, vbucket, len(body), opaque, 0)
        self._sock.sendall(head + body)

    def _receive(self, timeout: float) -> bool:
        """Receive what arrives within the time; return False if nothing does."""
        self._sock.settimeout(timeout)
        try:
            chunk = self._sock.recv(1 << 18)
        except TimeoutError:
            return False
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._take(chunk)
        return True

    def _take(self, chunk: bytes) -> None:
        self._buffer += chunk
        at = 0
        received = 0
        while len(self._buffer) - at >= HEADER.size:
            magic, opcode, key_size, extras_size, datatype, vb_or_status, body_size, opaque, cas = (
                HEADER.unpack_from(self._buffer, at)
            )
            size = HEADER.size + body_size
            if len(self._buffer) - at < size:
                break
            body = self._buffer[at + HEADER.size : at + size]
            at += size
            if magic == 0x81:
                self._answers.append(
                    Answer(opcode, vb_or_status, opaque, body[extras_size + key_size :])
                )
                continue
            assert magic == 0x80, hex(magic)
            if opcode == NOOP:
                if self.answering_noops:
                    self._send(NOOP, opaque=opaque, magic=0x81)
                self.noops += 1
                continue
            extras, rest = body[:extras_size], body[extras_size:]
            self.messages.append(
                Message(
                    opcode,
                    vb_or_status,
                    opaque,
                    cas,
                    extras,
                    rest[:key_size],
                    rest[key_size:],
                    size,
                    datatype,
                )
            )
            received += size
        self._buffer = self._buffer[at:]
        if self.acknowledging and received:
            self.acknowledge(received)


def parse_log(value: bytes) -> list[tuple[int, int]]:
    """Return (uuid, seqno) pairs, the newest first."""
    return [struct.unpack_from(">QQ", value, at) for at in range(0, len(value), 16)]


@dataclass
class View:
    """The state of a vBucket as a client knows it from messages; checks the rules of a stream."""

    documents: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    deleted: set[bytes] = field(default_factory=set)
    seqno: int = 0
    snapshots: list[tuple[int, int, int]] = field(default_factory=list)
    _keys: set[bytes] = field(default_factory=set)

    def apply(self, messages: list[Message], vbucket: int = 0) -> View:
        for message in messages:
            if message.vbucket != vbucket:
                continue
            if message.opcode == MARKER:
                self.snapshots.append(message.marker)
                self._keys.clear()
            elif message.is_document:
                start, end, _ = self.snapshots[-1]
                assert start <= message.seqno <= end, "outside its snapshot"
                assert message.seqno > self.seqno, "out of order, or twice"
                assert message.key not in self._keys, "a key twice in one snapshot"
                self._keys.add(message.key)
                self.seqno = message.seqno
                if message.opcode == MUTATION:
                    self.documents[message.key] = (message.seqno, message.value)
                    self.deleted.discard(message.key)
                else:
                    self.documents.pop(message.key, None)
                    self.deleted.add(message.key)
        return self
