"""Talk to a server: memcached's text protocol and RESP, as far as an adapter needs them.

Needs the standard library alone, because it runs on the server's host (agent.py). Not for load: one request at a time.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Reply: TypeAlias = "str | int | list[Reply] | None"
MOST_BYTES = 1 << 20  # of an answer; a peer that sends more speaks something else


class WireError(Exception):
    """The server answered with an error, or with something that is not the protocol."""


class UnfitError(WireError):
    """The server answered, but cannot be measured."""


class ErrorReplyError(WireError):
    """The server answered, but with an error: it does not know a question, or refuses it."""


class Wire:
    """A connection to a server. Raises OSError if the server cannot be reached or does not answer in time."""

    def __init__(self, host: str, port: int, timeout_s: float = 5.0) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._socket.settimeout(timeout_s)
        self._read = b""

    @property
    def own_port(self) -> int:
        """The port of this end of the connection."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._socket.close()

    # -- memcached's text protocol

    def memcached(self, command: str) -> dict[str, str]:
        """Send a `stats` command; return its figures by name."""
        self._socket.sendall(f"{command}\r\n".encode())
        figures: dict[str, str] = {}
        while True:
            line = self._line()
            if line in ("END", "RESET"):
                return figures
            words = line.split(" ", 2)
            if words[0] != "STAT" or len(words) < 2:
                raise ErrorReplyError(f"{command}: {line[:200]}")
            figures[words[1]] = words[2] if len(words) > 2 else ""

    def memcached_version(self) -> str:
        self._socket.sendall(b"version\r\n")
        line = self._line()
        if not line.startswith("VERSION "):
            raise WireError(f"version: {line[:200]}")
        return line.removeprefix("VERSION ")

    def memcached_binary_version(self) -> None:
        """Ask in the binary protocol. A server that reads it as text sees a line, and answers an error."""
        self._socket.sendall(b"\x80\x0b" + bytes(22) + b"\r\n")
        self._more()
        if self._read[:1] != b"\x81":
            raise WireError(f"not binary: {self._read[:200]!r}")

    # -- RESP 2

    def resp(self, *words: str) -> Reply:
        """Send a command of Redis; return its reply. Raises WireError for an error reply."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word.encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self._socket.sendall(b"".join(parts))
        return self._reply()

    def info(self, *sections: str) -> dict[str, str]:
        """Return the figures of INFO; none of sections that the server does not know."""
        figures: dict[str, str] = {}
        for section in sections:
            try:
                figures |= self.lines("INFO", section)
            except ErrorReplyError as error:
                self._must_serve(error)
        return figures

    def lines(self, *words: str) -> dict[str, str]:
        """Return the lines `NAME:VALUE` of an answer."""
        text = self.resp(*words)
        if not isinstance(text, str):
            raise WireError(f"{' '.join(words)}: no text")
        pairs = (line.partition(":") for line in text.splitlines())
        return {name: value for name, separator, value in pairs if separator}

    def _must_serve(self, refusal: WireError) -> None:
        """Raise a refusal again if it is not of one question: the server wants a password, or loads its data."""
        try:
            self.resp("PING")
        except (OSError, WireError):
            raise refusal from None

    def _reply(self) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        try:
            if kind == "+":
                return rest
            if kind == ":":
                return int(rest)
            if kind == "$":
                return None if int(rest) < 0 else self._bytes(int(rest))
            if kind == "*":
                return [self._reply() for _ in range(max(0, int(rest)))]
        except ValueError:
            raise WireError(f"not RESP: {line[:200]!r}") from None
        if kind == "-":
            raise ErrorReplyError(rest[:200])
        raise WireError(f"not RESP: {line[:200]!r}")

    # -- bytes

    def _line(self) -> str:
        while b"\r\n" not in self._read:
            self._more()
        line, _, self._read = self._read.partition(b"\r\n")
        return line.decode(errors="replace")

    def _bytes(self, length: int) -> str:
        while len(self._read) < length + 2:
            self._more()
        data, self._read = self._read[:length], self._read[length + 2 :]
        return data.decode(errors="replace")

    def _more(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise WireError("the server closed the connection without an answer")
        self._read += data
        if len(self._read) > MOST_BYTES:
            raise WireError("the answer is too long")


@contextlib.contextmanager
def connected(host: str, port: int, timeout_s: float = 5.0) -> Iterator[Wire]:
    """Provide a connection and close it."""
    wire = Wire(host, port, timeout_s)
    try:
        yield wire
    finally:
        wire.close()


def log_in(wire: Wire, password: str | None) -> None:
    """Authenticate as Redis' default user."""
    if password:
        wire.resp("AUTH", password)


def as_pairs(reply: Reply) -> dict[str, str]:
    """Return a flat list of names and values as a mapping."""
    words: Sequence[Reply] = reply if isinstance(reply, list) else []
    return {str(name): str(value) for name, value in zip(words[::2], words[1::2], strict=False)}
