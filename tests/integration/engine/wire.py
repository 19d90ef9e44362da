"""A memcached binary client for tests: it sends any bytes and shows every answer as it came."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from typing_extensions import Self

from tests.support.waiting import PATIENCE_S

HEADER = struct.Struct(">BBHBBHIIQ")
HELLO_FEATURES = {
    "tcp_nodelay": 3,
    "mutation_seqno": 4,
    "xerror": 7,
    "select_bucket": 8,
    "json": 11,
}


@dataclass(frozen=True)
class Answer:
    opcode: int
    status: int
    opaque: int
    cas: int
    datatype: int
    extras: bytes
    key: bytes
    value: bytes


def frame(
    opcode: int,
    key: bytes = b"",
    value: bytes = b"",
    extras: bytes = b"",
    *,
    magic: int = 0x80,
    vbucket: int = 0,
    opaque: int = 0,
    cas: int = 0,
    datatype: int = 0,
) -> bytes:
    body = extras + key + value
    head = HEADER.pack(
        magic, opcode, len(key), len(extras), datatype, vbucket, len(body), opaque, cas
    )
    return head + body


def set_frame(key: bytes, value: bytes, *, flags: int = 0, expiry: int = 0, **more: int) -> bytes:
    return frame(0x01, key, value, struct.pack(">II", flags, expiry), **more)


@dataclass
class Wire:
    port: int
    timeout: float = PATIENCE_S
    receive_buffer: int | None = None
    _sock: socket.socket = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._sock = socket.socket()
        if self.receive_buffer is not None:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        self._sock.settimeout(self.timeout)
        self._sock.connect(("127.0.0.1", self.port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def send_what_fits(self, data: bytes, seconds: float) -> int:
        """Bytes taken before the peer has taken nothing more for that long."""
        self._sock.settimeout(seconds)
        taken = 0
        try:
            while taken < len(data):
                taken += self._sock.send(data[taken : taken + 65536])
        except TimeoutError:
            pass
        finally:
            self._sock.settimeout(self.timeout)
        return taken

    def read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._sock.recv(min(1 << 20, count - len(data)))
            if not part:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += part
        return bytes(data)

    def answer(self) -> Answer:
        head = self.read(24)
        magic, opcode, key_length, extras_length, datatype, status, body_length, opaque, cas = (
            HEADER.unpack(head)
        )
        assert magic == 0x81, head
        body = self.read(body_length)
        key_at = extras_length + key_length
        return Answer(
            opcode, status, opaque, cas, datatype,
            body[:extras_length], body[extras_length:key_at], body[key_at:],
        )  # fmt: skip

    def ask(self, *args: object, **kwargs: object) -> Answer:
        self.send(frame(*args, **kwargs))  # type: ignore[arg-type]
        return self.answer()

    def at_end(self) -> bool:
        """True when the server closes without sending anything more."""
        try:
            return self._sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def hello(self, *features: str) -> list[int]:
        wanted = b"".join(struct.pack(">H", HELLO_FEATURES[name]) for name in features)
        value = self.ask(0x1F, b"test", wanted).value
        return [code for (code,) in struct.iter_unpack(">H", value)]

    def stats(self, group: bytes = b"") -> dict[str, str]:
        self.send(frame(0x10, group))
        results: dict[str, str] = {}
        while (answer := self.answer()).key:
            results[answer.key.decode()] = answer.value.decode()
        assert answer.status == 0, answer
        return results
