"""Who may log in, how often, and on which connections."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from tests.support.waiting import until

pytestmark = pytest.mark.integration

SELECT, SASL_AUTH, SASL_STEP = 0x89, 0x21, 0x22
DCP_OPEN, DCP_STREAM_REQ, DCP_GET_FAILOVER_LOG, DELETE_WITH_META = 0x50, 0x53, 0x54, 0xA8
MARKER, MUTATION = 0x56, 0x57
AUTH_ERROR, NOT_SUPPORTED = 0x20, 0x83
NEVER = 2**64 - 1
USERS = {"ann": "secret", "bob": "secret"}


def plain(wire: Wire, user: bytes, password: bytes) -> int:
    return wire.ask(SASL_AUTH, b"PLAIN", b"\0" + user + b"\0" + password).status


def stream_request(start: int, uuid: int) -> bytes:
    extras = struct.pack(">IIQQQQQ", 0, 0, start, NEVER, uuid, start, start)
    return frame(DCP_STREAM_REQ, extras=extras)


@pytest.mark.parametrize("password", [b"secret", b"wrong"])
def test_a_dcp_connection_stays_who_it_is(
    password: bytes, start_engine: Callable[..., Any]
) -> None:
    engine = start_engine("--vbuckets", "1", users=USERS)
    with Wire(engine.port) as writer, Wire(engine.port) as client:
        assert plain(writer, b"ann", b"secret") == 0
        assert plain(client, b"ann", b"secret") == 0
        assert client.ask(DCP_OPEN, b"client", extras=struct.pack(">II", 0, 1)).status == 0
        client.send(stream_request(0, 0))
        assert client.answer().status == 0
        for refused in (
            frame(SASL_AUTH, b"PLAIN", b"\0bob\0" + password),
            frame(SASL_AUTH, b"SCRAM-SHA1", b"n,,n=bob,r=nonce"),
            frame(SASL_STEP, b"SCRAM-SHA1", b"c=biws"),
            frame(SELECT, b"default"),
            frame(SELECT, b"other"),
        ):
            client.send(refused)
            assert client.answer().status == NOT_SUPPORTED
        writer.send(set_frame(b"k", b"v"))
        assert writer.answer().status == 0
        assert client.read(24)[1] == MARKER
        client.read(20)
        assert client.read(24)[1] == MUTATION


def test_guesses_of_many_connections_are_braked_together(
    start_engine: Callable[..., Any],
) -> None:
    settings = ("--param", "failed_logins_per_minute=1", "--param", "auth_delay_ms=0")
    engine = start_engine(*settings, users=USERS)
    begun = time.monotonic()
    answered = 0
    for _ in range(60):
        with Wire(engine.port) as guesser:
            guesser.send(frame(SASL_AUTH, b"PLAIN", b"\0ann\0guess"))
            try:
                answered += guesser.answer().status == AUTH_ERROR
            except EOFError:
                continue
    minutes = (time.monotonic() - begun) / 60
    assert answered <= 10 + minutes + 1
    with Wire(engine.port) as late:
        late.send(frame(SASL_AUTH, b"PLAIN", b"\0ann\0secret"))
        assert late.at_end(), "a right guess is not told from a wrong one"
    with Wire(engine.port) as other:
        assert plain(other, b"bob", b"secret") == 0


def test_the_right_password_is_never_braked(start_engine: Callable[..., Any]) -> None:
    engine = start_engine("--param", "failed_logins_per_minute=1", users=USERS)
    for _ in range(100):
        with Wire(engine.port) as wire:
            assert plain(wire, b"ann", b"secret") == 0


def purger_runs(wire: Wire) -> int:
    line = next(v for k, v in wire.stats(b"tasks").items() if k.endswith(":tombstone_purger"))
    return int(line.split("runs=")[1].split()[0])


def purge_seqno(wire: Wire) -> int:
    return int(wire.stats(b"vbucket-details")["vb_0:purge_seqno"])


def delete_from_elsewhere(wire: Wire, time_of_deletion: int) -> None:
    """A hundred documents, and a deletion that says when it was made."""
    for number in range(100):
        wire.send(set_frame(b"k%d" % number, b"v"))
        assert wire.answer().status == 0
    extras = struct.pack(">IIQQ", 0, time_of_deletion, 1, 5)
    assert wire.ask(DELETE_WITH_META, b"other", extras=extras).status == 0


def test_an_early_time_of_deletion_rolls_no_client_back(start_engine: Callable[..., Any]) -> None:
    flags = ("--vbuckets", "1", "--param", "ephemeral_purge_interval_s=1")
    engine = start_engine(*flags, "--param", "ephemeral_purge_age_s=3600")
    with Wire(engine.port) as writer, Wire(engine.port) as client:
        delete_from_elsewhere(writer, 1)
        runs = purger_runs(writer)
        until(lambda: purger_runs(writer) >= runs + 3, "no purge")
        assert purge_seqno(writer) == 0
        assert client.ask(DCP_OPEN, b"client", extras=struct.pack(">II", 0, 1)).status == 0
        uuid = int(struct.unpack(">Q", client.ask(DCP_GET_FAILOVER_LOG).value[:8])[0])
        client.send(stream_request(50, uuid))
        assert client.answer().status == 0


def test_a_late_time_of_deletion_keeps_no_tombstone(start_engine: Callable[..., Any]) -> None:
    flags = ("--vbuckets", "1", "--param", "ephemeral_purge_interval_s=1")
    engine = start_engine(*flags, "--param", "ephemeral_purge_age_s=1")
    with Wire(engine.port) as writer:
        delete_from_elsewhere(writer, 0xFFFFFFFF)
        until(lambda: purge_seqno(writer) == 101, "the tombstone is kept")
