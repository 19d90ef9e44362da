"""The DCP source of the tests ends in order whatever its peer did."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.support.dcp_client import HEADER, NOOP
from tests.support.dcp_source import REQUEST, DcpSource, frame


def replica(source: DcpSource) -> socket.socket:
    """A connection that is served: its NOOP is answered."""
    connection = socket.create_connection(("127.0.0.1", source.port), timeout=30)
    connection.sendall(frame(REQUEST, NOOP, 0, 7))
    assert len(connection.recv(HEADER.size, socket.MSG_WAITALL)) == HEADER.size
    return connection


@pytest.mark.parametrize("end", ["reset", "closed", "open"])
def test_it_ends_with_a_replica_that_is_gone(end: str) -> None:
    before = threading.active_count()
    with DcpSource(timeout=30) as source:
        connection = replica(source)
        if end == "reset":  # as a process that was killed with data unread
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end != "open":
            connection.close()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", source.port), timeout=30)
    connection.close()
