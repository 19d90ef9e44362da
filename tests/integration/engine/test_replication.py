"""One engine node follows another: every item is compared, by what the replica itself streams out."""

from __future__ import annotations

import json
import random
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from tests.support.dcp_client import (
    DELETE_TIMES,
    MUTATION,
    STREAM_END,
    TO_LATEST,
    DcpClient,
    Message,
)
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

VBUCKETS = 8
GET, DELETE, SASL_AUTH, SET_VBUCKET, SELECT, ACTIVE = 0x00, 0x04, 0x21, 0x3D, 0x89, 1
RAW, JSON = 0, 1


def session(port: int) -> Wire:
    wire = Wire(port)
    wire.hello("select_bucket", "json")
    assert wire.ask(SELECT, b"default").status == 0
    return wire


def vbucket_of(key: bytes) -> int:
    return zlib.crc32(key) % VBUCKETS


def load(port: int, operations: int, seed: int) -> None:
    """Sets of raw and JSON documents, overwrites and deletions over all vBuckets, pipelined."""
    draw = random.Random(seed)
    with session(port) as wire:
        for batch in range(0, operations, 500):
            requests = []
            for number in range(batch, min(batch + 500, operations)):
                key = b"key-%d" % draw.randrange(operations // 2)
                vbucket = vbucket_of(key)
                if draw.random() < 0.1:
                    requests.append(frame(DELETE, key, vbucket=vbucket))
                else:
                    value = b"%d:" % number + draw.randbytes(draw.randrange(200))
                    kind = draw.choice((RAW, JSON))
                    requests.append(
                        set_frame(key, value, flags=number, vbucket=vbucket, datatype=kind)
                    )
            wire.send(b"".join(requests))
            for _ in requests:
                assert wire.answer().status in (0, 1)


def contents(port: int) -> list[dict[bytes, Message]]:
    """The latest message of every key, by vBucket."""
    with DcpClient(port, flags=DELETE_TIMES) as client:
        for vbucket in range(VBUCKETS):
            assert client.open_stream(vbucket, flags=TO_LATEST).status == 0
        client.until(lambda got: sum(m.opcode == STREAM_END for m in got) == VBUCKETS, timeout=60)
        results: list[dict[bytes, Message]] = [{} for _ in range(VBUCKETS)]
        for message in client.messages:
            if message.is_document:
                results[message.vbucket][message.key] = message
        return results


def essence(message: Message) -> tuple[Any, ...]:
    """Everything but the stream's number."""
    return (message.opcode, message.cas, message.extras, message.datatype, message.value)


def same(source: int, replica: int) -> bool:
    left, right = contents(source), contents(replica)
    return [{k: essence(m) for k, m in vb.items()} for vb in left] == [
        {k: essence(m) for k, m in vb.items()} for vb in right
    ]


@pytest.fixture
def start_pair(start_engine: Callable[..., Any], tmp_path: Any) -> Callable[[str], Any]:
    def start(kind: str, *flags: str, replica_of: Any = None) -> Any:
        if replica_of is not None:
            flags += ("--replicate-from", f"127.0.0.1:{replica_of.port}")
        return start_engine("--vbuckets", str(VBUCKETS), *flags, kind=kind)

    return start


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_every_item_of_a_loaded_node_arrives(kind: str, start_pair: Any, tmp_path: Any) -> None:
    source = start_pair(kind, "--data-dir", str(tmp_path / "source"))
    load(source.port, 6000, seed=1)
    replica = start_pair(kind, "--data-dir", str(tmp_path / "replica"), replica_of=source)
    load(source.port, 6000, seed=2)
    until(lambda: same(source.port, replica.port))
    with session(replica.port) as wire:
        stats = wire.stats(b"replication")
        assert (stats["connected"], stats["refused"], stats["rollbacks"]) == ("true", "0", "0")
        assert wire.ask(GET, b"key-1", vbucket=vbucket_of(b"key-1")).status == 7
    with DcpClient(source.port) as left, DcpClient(replica.port) as right:
        assert left.failover_log() == right.failover_log()


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_a_replica_is_charged_for_what_it_holds(kind: str, start_pair: Any, tmp_path: Any) -> None:
    """Memory of overwritten documents is charged first, and must all be given back."""
    quick = ("--param", "chk_period_ms=100", "--param", "chk_remover_ms=100")
    source = start_pair(kind, "--data-dir", str(tmp_path / "source"), *quick)
    replica = start_pair(kind, "--data-dir", str(tmp_path / "replica"), *quick, replica_of=source)

    def used(port: int) -> int:
        with Wire(port) as wire:
            return int(wire.stats(b"memory")["mem_used"])

    with session(source.port) as wire:
        for _ in range(5):
            keys = [b"key-%d" % number for number in range(1000)]
            wire.send(b"".join(set_frame(k, b"v" * 1000, vbucket=vbucket_of(k)) for k in keys))
            assert {wire.answer().status for _ in keys} == {0}
    until(lambda: same(source.port, replica.port))
    until(lambda: used(source.port) < 2_000_000)  # checkpoints are gone
    until(lambda: used(replica.port) == pytest.approx(used(source.port), rel=0.3))


def test_a_follower_with_fewer_vbuckets_replicates_nothing_and_says_so(
    start_pair: Any, start_engine: Callable[..., Any], tmp_path: Any
) -> None:
    """A copy of a part of the documents would pass for the whole after its promotion."""
    source = start_pair("ephemeral")
    load(source.port, 200, seed=1)
    replica = start_engine(
        "--vbuckets", str(VBUCKETS // 2), "--replicate-from", f"127.0.0.1:{source.port}",
        "--data-dir", str(tmp_path / "replica"),
    )  # fmt: skip
    with Wire(replica.port) as wire:
        until(lambda: int(wire.stats(b"replication")["connections"]) >= 2)
        assert wire.stats()["curr_items"] == "0"
        assert f"has vBucket {VBUCKETS - 1}" in replica.log.read_text()


def test_a_replica_of_a_replica(start_pair: Any) -> None:
    source = start_pair("ephemeral")
    middle = start_pair("ephemeral", replica_of=source)
    last = start_pair("ephemeral", replica_of=middle)
    load(source.port, 5000, seed=3)
    until(lambda: same(source.port, middle.port) and same(source.port, last.port))


def test_a_restarted_replica_resumes(start_pair: Any, tmp_path: Any) -> None:
    source = start_pair("persistent", "--data-dir", str(tmp_path / "source"))
    load(source.port, 2000, seed=4)
    directory = ("--data-dir", str(tmp_path / "replica"))
    replica = start_pair("persistent", *directory, replica_of=source)
    until(lambda: same(source.port, replica.port))
    assert replica.stop() == 0
    load(source.port, 500, seed=5)
    again = start_pair("persistent", *directory, replica_of=source)
    until(lambda: same(source.port, again.port))
    with session(again.port) as wire:
        stats = wire.stats(b"replication")
        assert stats["rollbacks"] == "0"
        assert int(stats["messages"]) < 1500, "only what it missed"


def test_a_replica_of_another_history_starts_over_when_it_is_asked_to(
    start_pair: Any, kv_engine: Path, tmp_path: Path
) -> None:
    """It cannot know whether the other source ever had what it has."""
    directory = ("--data-dir", str(tmp_path / "replica"))
    first = start_pair("ephemeral")
    load(first.port, 2000, seed=6)
    replica = start_pair("persistent", *directory, replica_of=first)
    until(lambda: same(first.port, replica.port))
    assert replica.stop() == 0
    assert first.stop() == 0
    other = start_pair("ephemeral")
    load(other.port, 4000, seed=7)
    again = start_pair("persistent", *directory, replica_of=other)
    with session(again.port) as wire:
        until(lambda: wire.stats(b"replication")["copies_kept"] == str(VBUCKETS))
        every = ",".join(map(str, range(VBUCKETS)))
        discard = [kv_engine.parent / "kvctl", f"--port={again.port}", "discard-copies"]
        subprocess.run([*discard, f"--vbuckets={every}"], check=True, timeout=PATIENCE_S)
        until(lambda: same(other.port, again.port))
        assert wire.stats(b"replication")["copies_kept"] == "0"


def test_a_promoted_replica_serves_what_it_has(start_pair: Any) -> None:
    source = start_pair("ephemeral")
    load(source.port, 1000, seed=8)
    replica = start_pair("ephemeral", replica_of=source)
    until(lambda: same(source.port, replica.port))
    expected = contents(source.port)[0]
    with session(replica.port) as wire:
        assert wire.ask(SET_VBUCKET, extras=bytes([ACTIVE]), vbucket=0).status == 0
        for key, message in expected.items():
            answer = wire.ask(GET, key, vbucket=0)
            assert answer.status == (0 if message.opcode == MUTATION else 1)
            if answer.status == 0:
                assert (answer.value, answer.cas) == (message.value, message.cas)
        wire.send(set_frame(b"mine", b"v", vbucket=0))
        assert wire.answer().status == 0
    with session(source.port) as wire:
        wire.send(set_frame(b"theirs", b"v", vbucket=0))
        assert wire.answer().status == 0
    with DcpClient(replica.port) as client:
        assert len(client.failover_log()) == 2, "a new history begins at the promotion"


def login_file(path: Any, users: dict[str, str]) -> str:
    path.write_text(json.dumps(users))
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def guarded(start_engine: Callable[..., Any]) -> Any:
    """A source whose data only ann may see: 500 documents."""
    source = start_engine("--vbuckets", str(VBUCKETS), users={"ann": "secret"})
    with Wire(source.port) as wire:  # without HELLO: the engine maps keys to vBuckets
        assert wire.ask(SASL_AUTH, b"PLAIN", b"\0ann\0secret").status == 0
        wire.send(b"".join(set_frame(b"key-%d" % n, b"%d" % n) for n in range(500)))
        for _ in range(500):
            assert wire.answer().status == 0
    return source


def test_a_source_with_users_is_followed_by_one_of_them(
    guarded: Any, start_pair: Any, tmp_path: Any
) -> None:
    login = login_file(tmp_path / "login.json", {"ann": "secret"})
    replica = start_pair("ephemeral", "--replicate-login", login, replica_of=guarded)
    until(lambda: sum(map(len, contents(replica.port))) == 500)
    results = {key: m.value for vb in contents(replica.port) for key, m in vb.items()}
    assert results == {b"key-%d" % n: b"%d" % n for n in range(500)}
    assert "secret" not in replica.log.read_text()


@pytest.mark.parametrize(
    ("users", "says"),
    [({"ann": "wrong"}, "the login as ann was answered"), (None, "dcp_open was answered")],
)
def test_a_refused_follower_says_so_and_gets_nothing(
    guarded: Any, start_pair: Any, tmp_path: Any, users: dict[str, str] | None, says: str
) -> None:
    flags = []
    if users is not None:
        flags = ["--replicate-login", login_file(tmp_path / "login.json", users)]
    replica = start_pair("ephemeral", *flags, replica_of=guarded)
    until(lambda: says in replica.log.read_text())
    with session(replica.port) as wire:
        assert wire.stats(b"replication")["streams_opened"] == "0"


def test_a_login_at_a_source_without_users_is_refused(start_pair: Any, tmp_path: Any) -> None:
    source = start_pair("ephemeral")
    login = login_file(tmp_path / "login.json", {"ann": "secret"})
    replica = start_pair("ephemeral", "--replicate-login", login, replica_of=source)
    until(lambda: "the source has no users" in replica.log.read_text())


def test_a_login_file_holds_one_user(kv_engine: Any, tmp_path: Any) -> None:
    login = login_file(tmp_path / "login.json", {"ann": "a", "bob": "b"})
    done = subprocess.run(
        [str(kv_engine), "--replicate-from", "127.0.0.1:1", "--replicate-login", login],
        capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"expected one user, found 2" in done.stderr


@pytest.mark.parametrize("address", ["nonsense", "host:", ":1", "host:99999", "host:12x"])
def test_a_bad_address_is_a_usage_error(address: str, kv_engine: Any) -> None:
    done = subprocess.run(
        [str(kv_engine), "--replicate-from", address],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert b"HOST:PORT" in done.stderr
