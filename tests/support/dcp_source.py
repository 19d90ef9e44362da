"""A DCP source for tests that answers as configured, to test a replica with late and unwelcome answers."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from dataclasses import dataclass
from typing import final

from tests.support.dcp_client import (
    CLOSE_STREAM,
    FAILOVER_LOG,
    HEADER,
    MARKER,
    MUTATION,
    NOOP,
    STREAM_END,
    STREAM_REQ,
)

REQUEST, RESPONSE = 0x80, 0x81
OK = 0
ALL_SEQNOS = 0x48


@dataclass(frozen=True)
class StreamRequest:
    vbucket: int
    opaque: int
    start: int
    uuid: int
    snapshot: tuple[int, int]
    connection: socket.socket


def frame(
    magic: int, opcode: int, field: int, opaque: int, *, cas: int = 0, extras: bytes = b"",
    key: bytes = b"", value: bytes = b"",
) -> bytes:  # fmt: skip
    body = extras + key + value
    head = HEADER.pack(magic, opcode, len(key), len(extras), 0, field, len(body), opaque, cas)
    return head + body


def encoded(log: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">QQ", *entry) for entry in log)


@final
class DcpSource:
    """Listens on its own port. Answers requests with success at once, but stream requests as it is configured."""

    def __init__(self, timeout: float = 30) -> None:
        self.timeout = timeout
        self.high_seqno = 1 << 40  # of vBucket 0: more than any replica has
        self.log: list[tuple[int, int]] = []  # what it answers who asks for its failover log
        self._requests: queue.Queue[StreamRequest] = queue.Queue()
        self._noops: queue.Queue[int] = queue.Queue()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[tuple[socket.socket, threading.Thread]] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> DcpSource:
        return self

    def __exit__(self, *_: object) -> None:
        """End the source and all of its connections."""
        _shut_down(self._listener)  # closing alone does not wake the thread that accepts
        self._accepting.join(self.timeout)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """End every connection."""
        with self._lock:
            ended, self._open = self._open, []
        for connection, serving in ended:
            _shut_down(connection)
            serving.join(self.timeout)
            connection.close()

    def next_request(self) -> StreamRequest:
        return self._requests.get(timeout=self.timeout)

    def answer(self, request: StreamRequest, status: int, value: bytes = b"") -> None:
        request.connection.sendall(frame(RESPONSE, STREAM_REQ, status, request.opaque, value=value))

    def accept(self, request: StreamRequest, log: list[tuple[int, int]]) -> None:
        """Answer with a failover log: (uuid, seqno), the newest first."""
        self.answer(request, OK, encoded(log))

    def snapshot(
        self, request: StreamRequest, start: int, end: int, keys: dict[int, bytes]
    ) -> None:
        """Send a marker, and a mutation of each key at its seqno."""

        def send(
            opcode: int, extras: bytes, key: bytes = b"", value: bytes = b"", cas: int = 0
        ) -> None:
            request.connection.sendall(
                frame(
                    REQUEST, opcode, request.vbucket, request.opaque,
                    cas=cas, extras=extras, key=key, value=value,
                )
            )  # fmt: skip

        send(MARKER, struct.pack(">QQI", start, end, 1))
        for seqno, key in keys.items():
            extras = struct.pack(">QQIIIHB", seqno, 1, 0, 0, 0, 0, 0)
            send(MUTATION, extras, key, b"value of " + key, cas=1000 + seqno)

    def end_stream(self, request: StreamRequest, status: int) -> None:
        extras = struct.pack(">I", status)
        request.connection.sendall(
            frame(REQUEST, STREAM_END, request.vbucket, request.opaque, extras=extras)
        )

    def wait_until_read(self, request: StreamRequest) -> None:
        """Wait until the replica has processed everything sent before."""
        request.connection.sendall(frame(REQUEST, NOOP, 0, 99))
        self._noops.get(timeout=self.timeout)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            serving = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                serving.start()
                self._open.append((connection, serving))

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while head := stream.read(HEADER.size):
                magic, opcode, _, extras, _, vbucket, length, opaque, _ = HEADER.unpack(head)
                body = stream.read(length)
                if magic == RESPONSE:
                    self._noops.put(opaque)
                elif opcode == STREAM_REQ:
                    _, _, start, _, uuid, first, last = struct.unpack(">IIQQQQQ", body[:extras])
                    self._requests.put(
                        StreamRequest(vbucket, opaque, start, uuid, (first, last), connection)
                    )
                elif opcode == FAILOVER_LOG:
                    log = encoded(self.log)
                    connection.sendall(frame(RESPONSE, opcode, OK, opaque, value=log))
                elif opcode == ALL_SEQNOS:
                    seqnos = struct.pack(">HQ", 0, self.high_seqno)
                    connection.sendall(frame(RESPONSE, opcode, OK, opaque, value=seqnos))
                elif opcode != 0x5D:  # acknowledgements are not answered
                    status = 1 if opcode == CLOSE_STREAM else OK
                    connection.sendall(frame(RESPONSE, opcode, status, opaque))
        except (OSError, struct.error):
            pass  # the replica is gone, or the test dropped it
        finally:
            stream.close()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # a peer that reset the connection has ended it already
        connection.shutdown(socket.SHUT_RDWR)
