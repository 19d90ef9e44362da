"""The real engine over raw sockets: limits, mistakes, plain memcached semantics, start and stop."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from perfrunner.spec.switches import own_table, stat_key
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

MIB = 1 << 20
GET, SET, ADD, DELETE, QUIT, FLUSH, NOOP, VERSION = 0x00, 0x01, 0x02, 0x04, 0x07, 0x08, 0x0A, 0x0B
GETK, GETKQ, STAT, SETQ, QUITQ, SELECT = 0x0C, 0x0D, 0x10, 0x11, 0x17, 0x89
ENOENT, E2BIG, EINVAL, NOT_MY_VBUCKET, AUTH_ERROR, EACCESS, UNKNOWN = 1, 3, 4, 7, 0x20, 0x24, 0x81


def couchbase(port: int, *features: str) -> Wire:
    wire = Wire(port)
    wire.hello("select_bucket", *features)
    assert wire.ask(SELECT, b"default").status == 0
    return wire


# --- streams -------------------------------------------------------------------------------------


def test_a_pipeline_comes_back_in_order(engine: Any) -> None:
    with Wire(engine.port) as wire:
        requests = [set_frame(b"k%d" % i, b"v" * 100, opaque=i) for i in range(2000)]
        wire.send(b"".join(requests))
        assert [wire.answer().opaque for _ in requests] == list(range(2000))


def test_a_request_in_single_bytes(engine: Any) -> None:
    with Wire(engine.port) as wire:
        for byte in set_frame(b"key", b"value"):
            wire.send(bytes([byte]))
        assert wire.answer().status == 0
        assert wire.ask(GET, b"key").value == b"value"


def test_the_largest_document(engine: Any) -> None:
    with couchbase(engine.port) as wire:
        big = b"x" * (20 * MIB)
        wire.send(set_frame(b"big", big))
        assert wire.answer().status == 0
        assert wire.ask(GET, b"big").value == big
        wire.send(set_frame(b"big", big + b"x"))
        assert wire.answer().status == E2BIG
        assert wire.ask(NOOP).status == 0, "the body was consumed exactly once"


def test_unknown_opcodes_are_answered_and_their_bodies_skipped(engine: Any) -> None:
    with Wire(engine.port) as wire:
        dcp = {*range(0x50, 0x5F)} - {0x51, 0x5A, 0x5B}
        observing = {0x48, 0x83, 0x87, 0x91, 0x92, 0xB6, 0xB7, 0xB8}
        served = {0x3D, 0x3E, 0x3F, 0x89, 0x94, 0x95, 0x96, 0xA0, 0xA1, 0xB5, 0xFE}
        versions = {0xA2, 0xA3, 0xA4, 0xA5, 0xA8, 0xA9}
        known = {*dcp, *observing, *served, *versions, 0xB4, 0xD0, *range(0x25)}
        for opcode in sorted(set(range(256)) - known):
            wire.send(frame(opcode, b"key", b"value" * 50, b"extr", opaque=opcode))
            answer = wire.answer()
            assert (answer.status, answer.opaque) == (UNKNOWN, opcode)
            assert answer.value, "clients look at the status only if there is a body"
        assert wire.ask(NOOP).status == 0


def test_broken_requests_do_not_hurt_others(engine: Any) -> None:
    with Wire(engine.port) as good:
        assert good.ask(NOOP).status == 0
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"set a 0 0 1\r\n", b"\x81" * 24):
            with Wire(engine.port) as bad:
                bad.send(garbage)
                assert bad.at_end()
        with Wire(engine.port) as bad:
            bad.send(frame(GET, b"x" * 300)[:4] + b"\xff" * 20)  # lengths that cannot be
            assert bad.answer().status in {EINVAL, E2BIG}
            assert bad.at_end()
        with Wire(engine.port) as bad:
            bad.send(frame(SET, b"key", b"value"))  # no extras
            assert bad.answer().status == EINVAL
            assert bad.ask(NOOP).status == 0
        assert good.ask(NOOP).status == 0


def test_a_slow_reader_cannot_grow_the_server(engine: Any) -> None:
    with Wire(engine.port) as setup:
        setup.send(set_frame(b"k", b"v" * 100_000))
        assert setup.answer().status == 0
    before = engine.rss()
    readers = [Wire(engine.port, receive_buffer=4096) for _ in range(8)]
    flood = frame(GET, b"k") * 40_000  # 4 GB of answers for each
    for reader in readers:
        assert reader.send_what_fits(flood * 5, 0.3) < len(flood) * 5
    grown = engine.rss() - before
    assert grown < 8 * 2 * MIB + 8 * MIB, f"RSS grew by {grown / MIB:.1f} MiB"
    with Wire(engine.port) as other:
        assert other.ask(GET, b"k").status == 0, "others are still served"
        assert int(other.stats()["conn_slow_readers"]) >= 8
    for reader in readers:
        assert len(reader.answer().value) == 100_000
        reader.__exit__()


def test_announced_bytes_are_not_reserved(engine: Any) -> None:
    """A header that promises 20 MiB costs what was really sent."""
    before = engine.rss()
    wires = [couchbase(engine.port) for _ in range(50)]
    with Wire(engine.port) as other:
        read = int(other.stats()["bytes_read"])
        for wire in wires:
            wire.send(set_frame(b"k", b"x" * (20 * MIB))[:1000])
        until(lambda: int(other.stats()["bytes_read"]) >= read + 50 * 1000, "it has read them")
    assert engine.rss() - before < 50 * MIB
    for wire in wires:
        wire.__exit__()


# --- plain memcached clients ---------------------------------------------------------------------


def test_multi_get_with_quiet_forms(engine: Any) -> None:
    with Wire(engine.port) as wire:
        wire.send(b"".join(frame(SETQ, b"k%d" % i, b"%d" % i, bytes(8)) for i in range(10)))
        wire.send(b"".join(frame(GETKQ, b"k%d" % i, opaque=i) for i in range(20)) + frame(NOOP))
        results = {}
        while (answer := wire.answer()).opcode != NOOP:
            results[answer.key] = answer.value
        assert results == {b"k%d" % i: b"%d" % i for i in range(10)}


def test_limits_of_memcached(engine: Any) -> None:
    with Wire(engine.port) as wire:
        wire.send(set_frame(b"k", b"old"))
        wire.answer()
        wire.send(set_frame(b"k", b"x" * (MIB + 1)))
        assert wire.answer().status == E2BIG
        assert wire.ask(GET, b"k").status == ENOENT, "the old value is gone"
        assert wire.ask(GET, b"x" * 251).status == EINVAL
        assert wire.at_end()


def test_stats_settings_version_flush_and_quit(engine: Any) -> None:
    with Wire(engine.port) as wire:
        assert wire.ask(VERSION).value.count(b".") == 2
        assert wire.stats(b"settings")["vbuckets"] == "64"
        assert wire.stats(b"reset") == {}
        wire.send(set_frame(b"k", b"v"))
        wire.answer()
        assert wire.ask(FLUSH).status == 0
        assert wire.ask(GET, b"k").status == ENOENT
        assert wire.ask(QUIT).status == 0
        assert wire.at_end()
    with Wire(engine.port) as wire:
        wire.send(frame(QUITQ))
        assert wire.at_end()


def test_plain_and_couchbase_clients_share_documents(engine: Any) -> None:
    import zlib

    with Wire(engine.port) as plain, couchbase(engine.port) as smart:
        for i in range(50):
            key = b"shared-%d" % i
            plain.send(set_frame(key, key))
            assert plain.answer().status == 0
            vbucket = ((zlib.crc32(key) >> 16) & 0x7FFF) % 64
            assert smart.ask(GET, key, vbucket=vbucket).value == key


# --- Couchbase clients ---------------------------------------------------------------------------


def test_a_vbucket_outside_the_map_brings_the_map(engine: Any) -> None:
    with couchbase(engine.port, "json") as wire:
        answer = wire.ask(GET, b"k", vbucket=64)
        assert answer.status == NOT_MY_VBUCKET
        config = json.loads(answer.value)
        assert config["nodesExt"][0]["services"]["kv"] == engine.port
        assert len(config["vBucketServerMap"]["vBucketMap"]) == 64


@pytest.mark.parametrize(
    ("level", "status", "then"), [(1, 0, 0), (2, 0xA0, ENOENT), (3, 0xA0, ENOENT)]
)
def test_durable_writes_are_kept_or_refused(
    engine: Any, level: int, status: int, then: int
) -> None:
    with couchbase(engine.port) as wire:
        framing = bytes([0x11, level])  # one node is a majority; its disk is not waited for
        body = framing + bytes(8) + b"k" + b"v"
        head = struct.pack(">BBBBBBHIIQ", 0x08, SET, len(framing), 1, 8, 0, 0, len(body), 7, 0)
        wire.send(head + body)
        assert wire.answer().status == status
        assert wire.ask(GET, b"k").status == then


# --- login ---------------------------------------------------------------------------------------


def test_login_is_needed_where_users_are_configured(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(users={"ann": "secret"})
    with Wire(engine.port) as wire:
        assert wire.ask(GET, b"k").status == AUTH_ERROR
        assert wire.ask(STAT).status == AUTH_ERROR
        assert wire.ask(0x21, b"PLAIN", b"\0ann\0secret").status == 0
        assert wire.ask(GET, b"k").status == ENOENT
    with Wire(engine.port) as wire:
        wire.hello("select_bucket")
        assert wire.ask(GET, b"k").status == EACCESS
        assert wire.ask(SELECT, b"default").status == EACCESS


def test_guessing_passwords_is_slow_and_ends(start_engine: Callable[..., Any]) -> None:
    engine = start_engine("--param", "max_failed_logins=3", users={"ann": "secret"})
    with Wire(engine.port) as wire:
        begin = time.monotonic()
        for _ in range(3):
            assert wire.ask(0x21, b"PLAIN", b"\0ann\0guess").status == AUTH_ERROR
        assert time.monotonic() - begin > 0.45
        assert wire.at_end()


# --- the process ---------------------------------------------------------------------------------


def run(kv_engine: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [kv_engine, *flags], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--param", "ht_sise=5"], "nearest: ht_size"),
        (["--param", "ht_size=zero"], "not a number in"),
        (["--param", "ht_size"], "expected name=value"),
        (["--bucket-type", "other"], "persistent"),
        (["--vbuckets", "0"], "vbuckets"),
        (["--prot", "1"], "--prot"),
        (["--users", "/dev/null/users"], "users file"),
        (["--host", "0.0.0.0", "--port", "0"], "loopback"),
    ],
)
def test_bad_usage(kv_engine: Path, flags: list[str], says: str) -> None:
    done = run(kv_engine, "--bucket-type", "ephemeral", *flags)
    assert done.returncode == 2, done
    assert says in done.stderr
    assert done.stdout == ""


def test_a_users_file_for_all_to_read_is_refused(kv_engine: Path, tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    users.write_text('{"ann": "secret"}')
    users.chmod(0o644)
    done = run(kv_engine, "--bucket-type", "ephemeral", "--port", "0", "--users", str(users))
    assert done.returncode == 2
    assert "chmod 600" in done.stderr


def test_a_port_in_use_is_one_clear_line(kv_engine: Path, engine: Any) -> None:
    done = run(kv_engine, "--bucket-type", "ephemeral", "--port", str(engine.port))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(engine.port) in done.stderr
    assert "Address already in use" in done.stderr


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_a_clean_stop_with_clients_connected(start_engine: Callable[..., Any], kind: str) -> None:
    engine = start_engine(kind=kind)
    with Wire(engine.port) as wire:
        wire.send(set_frame(b"k", b"v"))
        assert wire.answer().status == 0
        assert engine.stop() == 0
        assert wire.at_end()


@pytest.mark.parametrize("reason", [signal.SIGINT, signal.SIGHUP])
def test_a_clean_stop_loses_nothing(
    reason: signal.Signals, start_engine: Callable[..., Any]
) -> None:
    before = signal.signal(reason, signal.SIG_DFL)  # under nohup, the engine would inherit "ignore"
    try:
        engine = start_engine(kind="persistent")
    finally:
        signal.signal(reason, before)
    with Wire(engine.port) as wire:
        wire.send(b"".join(set_frame(b"k%d" % i, b"v%d" % i) for i in range(5000)))
        assert all(wire.answer().status == 0 for _ in range(5000))
    engine.process.send_signal(reason)
    assert engine.process.wait(timeout=PATIENCE_S) == 0
    engine = start_engine(kind="persistent")
    with Wire(engine.port) as wire:
        assert wire.stats()["curr_items"] == "5000"
        assert wire.ask(GET, b"k4999").value == b"v4999"
        assert wire.stats(b"warmup")["ep_warmup_clean_stop"] == "true"


def test_repeated_signals_do_not_interrupt_a_stop(start_engine: Callable[..., Any]) -> None:
    for _ in range(5):
        engine = start_engine(kind="persistent")
        with Wire(engine.port) as wire:
            wire.send(b"".join(set_frame(b"k%d" % i, b"v%d" % i) for i in range(2000)))
            assert all(wire.answer().status == 0 for _ in range(2000))
        while engine.process.poll() is None:
            engine.process.terminate()
        assert engine.process.returncode == 0


def test_a_hangup_that_nohup_ignores_stops_nothing(
    start_engine: Callable[..., Any],
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by the engine
    try:
        engine = start_engine()
    finally:
        signal.signal(signal.SIGHUP, before)
    engine.process.send_signal(signal.SIGHUP)
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(timeout=PATIENCE_S) == 0
    log = engine.log.read_text()
    assert f"signal {int(signal.SIGTERM)}: stopping" in log
    assert f"signal {int(signal.SIGHUP)}: stopping" not in log


def test_settings_read_back(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(
        "--param", "ht_size=769", "--param", "max_unsent_kb=512", "--threads", "3"
    )
    with Wire(engine.port) as wire:
        config = wire.stats(b"config")
        assert config["ht_size"] == "769"
        assert config["max_unsent_kb"] == "512"
        assert config["threads"] == "3"
        for name, switch in own_table().items():
            assert switch.accepts(config[stat_key(name)]), name
        assert config["build.type"]
        assert wire.stats(b"allocator")["name"] == config["build.allocator"]
        assert {"mem_used", "ep_max_size", "total_heap_bytes"} <= wire.stats(b"memory").keys()
        assert any("checkpoint_remover" in name for name in wire.stats(b"tasks"))
