"""No copy is lost because another node lost its own, and no node serves what another one serves by now."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import HEADER, frame, set_frame

from perfrunner.experiment.trial.vbucket_map import cluster_config
from tests.integration.engine.test_crash import kill
from tests.integration.engine.test_replica_history import session
from tests.support.dcp_client import DcpClient
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GET, SET_VBUCKET, GET_VBUCKET, DEL_VBUCKET, SET_CONFIG = 0x00, 0x3D, 0x3E, 0x3F, 0xB4
ACTIVE, REPLICA, PENDING, DEAD = 1, 2, 3, 4
NOT_MY_VBUCKET, EXISTS, TMPFAIL = 0x07, 0x02, 0x86
DOCUMENTS = 500
LONGEST_FAILOVER_LOG = 25


def start(
    start_engine: Callable[..., Any], kind: str, data: Path, *flags: str, port: int = 0
) -> Any:
    place = ("--data-dir", str(data), "--port", str(port))
    return start_engine("--vbuckets", "1", *place, *flags, kind=kind)


def fill(port: int, count: int = DOCUMENTS) -> None:
    with session(port) as wire:
        wire.send(b"".join(set_frame(b"key-%d" % n, b"value") for n in range(count)))
        for _ in range(count):
            assert wire.answer().status == 0


def items(port: int) -> int:
    with session(port) as wire:
        return int(wire.stats(b"vbucket-details")["vb_0:num_items"])


def replication(port: int) -> dict[str, str]:
    with session(port) as wire:
        return wire.stats(b"replication")


def state(port: int) -> int:
    with session(port) as wire:
        return wire.ask(GET_VBUCKET).value[-1]


def set_state(port: int, wanted: int) -> None:
    with session(port) as wire:
        assert wire.ask(SET_VBUCKET, extras=bytes([wanted])).status == 0


def publish(port: int, revision: int, row: list[int], others: list[int], this: int = 0) -> int:
    """Publishes a map of one row and returns the status."""
    servers = [("127.0.0.1", p) for p in ([port, *others] if this == 0 else [*others, port])]
    config = json.loads(cluster_config(servers, [row], this=this))
    with session(port) as wire:
        wire.send(frame(SET_CONFIG, value=json.dumps({**config, "rev": revision}).encode()))
        return wire.answer().status


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_an_active_that_comes_back_empty_takes_no_replica_along(
    kind: str, start_engine: Callable[..., Any], kv_engine: Path, tmp_path: Path
) -> None:
    active = start(start_engine, kind, tmp_path / "active")
    follow = ("--replicate-from", f"127.0.0.1:{active.port}")
    replica = start(start_engine, kind, tmp_path / "replica", *follow)
    fill(active.port)
    until(lambda: items(replica.port) == DOCUMENTS)
    kill(active)
    shutil.rmtree(tmp_path / "active", ignore_errors=True)
    active = start(start_engine, kind, tmp_path / "active", port=active.port)
    until(lambda: replication(replica.port)["copies_kept"] == "1")
    messages = replication(replica.port)["vb_0:copy_kept"]
    assert messages.startswith(f"{DOCUMENTS} documents up to seqno {DOCUMENTS}; the source has")
    assert "is kept and not replicated" in replica.log.read_text()
    assert items(replica.port) == DOCUMENTS
    fill(active.port, DOCUMENTS + 10)
    assert items(replica.port) == DOCUMENTS
    kvctl = kv_engine.parent / "kvctl"
    done = subprocess.run(
        [str(kvctl), f"--port={replica.port}", "discard-copies", "--vbuckets=0"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    until(lambda: items(replica.port) == DOCUMENTS + 10)
    assert replication(replica.port)["copies_kept"] == "0"


@pytest.mark.parametrize(
    ("refused", "reported"),
    [(DEL_VBUCKET, "deletion of vBucket 3"), (SET_VBUCKET, "state of vBucket 3")],
)
def test_a_copy_that_cannot_be_discarded_stays_a_replica(
    refused: int, reported: str, kv_engine: Path
) -> None:
    """A refused state is in force: only the disk of the node does not take it."""
    answers = {GET_VBUCKET: (0, struct.pack(">I", REPLICA)), refused: (TMPFAIL, b"")}
    states = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [
            str(kv_engine.parent / "kvctl"), f"--port={listener.getsockname()[1]}",
            "discard-copies", "--vbuckets=3",
        ]  # fmt: skip
        asking = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        listener.settimeout(PATIENCE_S)
        with listener.accept()[0] as connection, connection.makefile("rb") as requests:
            while head := requests.read(HEADER.size):
                _, opcode, _, _, _, _, length, opaque, _ = HEADER.unpack(head)
                body = requests.read(length)
                if opcode == SET_VBUCKET:
                    states.append(body[0])
                status, value = answers.get(opcode, (0, b""))
                connection.sendall(
                    HEADER.pack(0x81, opcode, 0, 0, 0, status, len(value), opaque, 0) + value
                )
        assert asking.wait(PATIENCE_S) != 0
        assert asking.stderr is not None
        assert reported in asking.stderr.read()
    assert states == [DEAD, REPLICA]


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_an_active_that_comes_back_empty_and_outgrows_a_replica_takes_no_copy_along(
    kind: str, start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """Its clients write at once, so it may have more than the replica before that sees it again."""
    active = start(start_engine, kind, tmp_path / "active")
    follow = ("--replicate-from", f"127.0.0.1:{active.port}")
    replica = start(start_engine, kind, tmp_path / "replica", *follow)
    fill(active.port)
    until(lambda: items(replica.port) == DOCUMENTS)
    replica.process.send_signal(signal.SIGSTOP)
    kill(active)
    shutil.rmtree(tmp_path / "active", ignore_errors=True)
    active = start(start_engine, kind, tmp_path / "active", port=active.port)
    fill(active.port, DOCUMENTS + 10)
    replica.process.send_signal(signal.SIGCONT)
    until(lambda: "1" in (replication(replica.port)[key] for key in ("copies_kept", "rollbacks")))
    assert items(replica.port) == DOCUMENTS
    assert replication(replica.port)["copies_kept"] == "1"
    if kind == "persistent":  # the decision is made again after a restart
        assert replica.stop() == 0
        replica = start(start_engine, kind, tmp_path / "replica", *follow)
        until(lambda: replication(replica.port)["copies_kept"] == "1")
        assert items(replica.port) == DOCUMENTS


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_an_active_that_comes_back_with_nearly_nothing_takes_no_replica_along(
    kind: str, start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """It knows the history of the copy, whose beginning is all that a power cut or an old backup left."""
    data, synced = tmp_path / "active", tmp_path / "synced"
    active = start(start_engine, "persistent", data)
    follow = ("--replicate-from", f"127.0.0.1:{active.port}")
    replica = start(start_engine, kind, tmp_path / "replica", *follow)
    fill(active.port, 20)
    with session(active.port) as wire:
        until(lambda: wire.stats()["ep_queue_size"] == "0")
    shutil.copytree(data, synced)
    fill(active.port)
    until(lambda: items(replica.port) == DOCUMENTS)
    replica.process.send_signal(signal.SIGSTOP)
    kill(active)
    shutil.rmtree(data)
    synced.rename(data)
    active = start(start_engine, "persistent", data, port=active.port)
    assert items(active.port) == 20
    with session(active.port) as wire:  # its seqno is soon higher than that of the copy
        for _ in range(2 * DOCUMENTS):
            wire.send(set_frame(b"key-1", b"value"))
            assert wire.answer().status == 0
    replica.process.send_signal(signal.SIGCONT)
    until(lambda: "1" in (replication(replica.port)[key] for key in ("copies_kept", "rollbacks")))
    assert items(replica.port) == DOCUMENTS
    assert replication(replica.port)["copies_kept"] == "1"
    if kind == "persistent":  # the copy is kept over a restart, although the source has grown
        with session(active.port) as wire:
            wire.send(b"".join(set_frame(b"new-%d" % n, b"value") for n in range(DOCUMENTS)))
            assert all(wire.answer().status == 0 for _ in range(DOCUMENTS))
        with session(replica.port) as wire:
            until(lambda: wire.stats()["ep_queue_size"] == "0")
        kill(replica)
        replica = start(start_engine, kind, tmp_path / "replica", *follow)
        assert state(replica.port) == REPLICA
        figures = ("copies_kept", "rollbacks")
        until(lambda: "1" in (replication(replica.port)[key] for key in figures))
        assert items(replica.port) == DOCUMENTS
        assert replication(replica.port)["copies_kept"] == "1"
    set_state(replica.port, ACTIVE)
    with session(replica.port) as wire:
        assert wire.ask(GET, b"key-400").value == b"value"


def test_a_copy_that_was_kept_can_be_promoted(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    active = start(start_engine, "ephemeral", tmp_path / "active")
    follow = ("--replicate-from", f"127.0.0.1:{active.port}")
    replica = start(start_engine, "ephemeral", tmp_path / "replica", *follow)
    fill(active.port)
    until(lambda: items(replica.port) == DOCUMENTS)
    kill(active)
    start(start_engine, "ephemeral", tmp_path / "active", port=active.port)
    until(lambda: replication(replica.port)["copies_kept"] == "1")
    set_state(replica.port, ACTIVE)
    until(lambda: replication(replica.port)["copies_kept"] == "0")
    with session(replica.port) as wire:
        assert wire.ask(GET, b"key-7").value == b"value"


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_a_new_node_of_a_cluster_serves_nothing_by_itself(
    kind: str, start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    node = start(start_engine, kind, tmp_path / "node", "--cluster")
    assert state(node.port) == DEAD
    set_state(node.port, ACTIVE)
    assert state(node.port) == ACTIVE


@pytest.mark.parametrize("kind", ["ephemeral", "persistent"])
def test_a_node_that_comes_back_waits_for_a_config_as_new_as_its_last(
    kind: str, start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    node = start(start_engine, kind, tmp_path / "node")
    assert publish(node.port, 5, [0], []) == 0
    fill(node.port, 3)
    assert node.stop() == 0
    node = start(start_engine, kind, tmp_path / "node")
    empty = kind == "ephemeral"  # nothing was stored: it does not know that it was active
    assert state(node.port) == (DEAD if empty else PENDING)
    with session(node.port) as wire:
        assert wire.ask(GET, b"key-1").status == NOT_MY_VBUCKET
        assert wire.stats()["ep_cluster_fence"] == "up"
    set_state(node.port, ACTIVE)
    assert state(node.port) == PENDING
    assert publish(node.port, 4, [0], []) == EXISTS
    assert state(node.port) == PENDING
    assert publish(node.port, 5, [0], []) == 0
    assert state(node.port) == ACTIVE
    with session(node.port) as wire:
        assert wire.ask(GET, b"key-1").status == (1 if empty else 0)
        assert wire.stats()["ep_cluster_fence"] == "down"


def filled_pair(start_engine: Callable[..., Any], tmp_path: Path, kind: str) -> tuple[Any, Any]:
    """Start a persistent active and a replica of a kind in one cluster; the replica has all documents."""
    active = start(start_engine, "persistent", tmp_path / "active")
    replica = start(start_engine, kind, tmp_path / "replica")
    set_state(replica.port, REPLICA)
    assert publish(active.port, 5, [0, 1], [replica.port]) == 0
    assert publish(replica.port, 5, [0, 1], [active.port], this=1) == 0
    fill(active.port)
    until(lambda: items(replica.port) == DOCUMENTS)
    return active, replica


def test_an_idle_node_that_starts_often_keeps_the_history_of_its_documents(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """Each start begins a history. If that of the documents were dropped, each copy would start over."""
    node = start(start_engine, "persistent", tmp_path / "node")
    assert publish(node.port, 5, [0], []) == 0
    fill(node.port)
    with DcpClient(node.port) as client:
        (history, _), *_ = client.failover_log(0)
    for _ in range(LONGEST_FAILOVER_LOG + 1):
        assert node.stop() == 0
        node = start(start_engine, "persistent", tmp_path / "node")
        assert publish(node.port, 5, [0], []) == 0
        assert state(node.port) == ACTIVE
    with DcpClient(node.port) as client:
        newest, *_ = client.failover_log(0)
        assert newest[0] != history
        assert client.open_stream(start=DOCUMENTS, uuid=history).status == 0


def test_an_active_that_was_failed_over_does_not_serve_next_to_its_heir(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    old, heir = filled_pair(start_engine, tmp_path, "persistent")
    with session(old.port) as wire:
        until(lambda: wire.stats()["ep_queue_size"] == "0")
    kill(old)
    set_state(heir.port, ACTIVE)
    assert publish(heir.port, 6, [1, -1], [old.port], this=1) == 0
    with session(heir.port) as wire:
        wire.send(set_frame(b"key-1", b"of the heir"))
        assert wire.answer().status == 0
    old = start(start_engine, "persistent", tmp_path / "active", port=old.port)
    with session(old.port) as wire:
        wire.send(set_frame(b"key-1", b"of the old one"))
        assert wire.answer().status == NOT_MY_VBUCKET
        assert wire.ask(GET, b"key-1").status == NOT_MY_VBUCKET
    assert publish(old.port, 6, [1, 0], [heir.port]) == 0
    assert state(old.port) == PENDING, "the map names the heir"
    set_state(old.port, REPLICA)
    with session(old.port) as wire:
        until(lambda: wire.ask(0x83, b"key-1").value == b"of the heir")


def test_an_active_that_is_active_again_ends_the_streams_of_its_pending_vbuckets(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """It begins a new history, which a replica that went on with its stream would not know."""
    active, replica = filled_pair(start_engine, tmp_path, "ephemeral")
    assert active.stop() == 0
    active = start(start_engine, "persistent", tmp_path / "active", port=active.port)
    with DcpClient(active.port) as client:
        assert client.open_stream(0).status == 0
        assert state(active.port) == PENDING
        assert publish(active.port, 6, [0, 1], [replica.port]) == 0
        assert state(active.port) == ACTIVE
        client.until_end()
    with session(active.port) as wire:
        wire.send(set_frame(b"another", b"value"))
        assert wire.answer().status == 0
    until(lambda: items(replica.port) == DOCUMENTS + 1)
    with DcpClient(active.port) as first, DcpClient(replica.port) as second:
        assert second.failover_log(0) == first.failover_log(0)


def test_a_node_that_comes_back_with_less_rolls_no_replica_back_before_it_is_active(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    """A manager may promote the replica instead, which has what a power cut has taken."""
    data, synced = tmp_path / "old", tmp_path / "synced"
    old = start(start_engine, "persistent", data)
    heir = start(start_engine, "persistent", tmp_path / "heir")
    set_state(heir.port, REPLICA)
    assert publish(old.port, 5, [0, 1], [heir.port]) == 0
    assert publish(heir.port, 5, [0, 1], [old.port], this=1) == 0
    fill(old.port)
    with session(old.port) as wire:
        until(lambda: wire.stats()["ep_queue_size"] == "0")
    shutil.copytree(data, synced)
    fill(old.port, DOCUMENTS + 100)
    until(lambda: items(heir.port) == DOCUMENTS + 100)
    kill(old)
    shutil.rmtree(data)
    synced.rename(data)
    old = start(start_engine, "persistent", data, port=old.port)
    assert (state(old.port), items(old.port)) == (PENDING, DOCUMENTS)
    until(lambda: replication(heir.port)["streams_refused"] == "1")
    assert replication(heir.port)["vb_0:stream_refused"] == "Etmpfail (0x86)"
    assert items(heir.port) == DOCUMENTS + 100
    set_state(heir.port, ACTIVE)
    assert publish(heir.port, 6, [1, 0], [old.port], this=1) == 0
    assert publish(old.port, 6, [1, 0], [heir.port]) == 0
    set_state(old.port, REPLICA)
    until(lambda: items(old.port) == DOCUMENTS + 100)
