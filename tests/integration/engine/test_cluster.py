"""Engines that a manager makes a cluster: the map that they serve, whom they follow by it, and equal copies."""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from perfrunner.experiment.trial.vbucket_map import cluster_config, vbucket_map
from tests.integration.engine.test_replication import session
from tests.support.waiting import until

pytestmark = pytest.mark.integration

VBUCKETS = 8
GET_CONFIG, SET_CONFIG, GET, NOT_MY_VBUCKET, EXISTS, EINVAL = 0xB5, 0xB4, 0x00, 0x07, 0x02, 0x04


def vbucket_of(key: bytes) -> int:
    return ((zlib.crc32(key) >> 16) & 0x7FFF) % VBUCKETS


class Nodes:
    """Engines and the kvctl that is built next to them."""

    def __init__(self, engines: list[Any], kvctl: Path, directory: Path) -> None:
        self.engines, self.kvctl, self.directory = engines, kvctl, directory
        self.servers = [("127.0.0.1", engine.port) for engine in engines]

    def run(self, node: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.kvctl), f"--port={self.engines[node].port}", *arguments],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def tell(self, rows: list[list[int]], revision: int) -> None:
        for verb in ("set-states", "set-config"):
            for node in range(len(self.engines)):
                config = json.loads(cluster_config(self.servers, rows, this=node))
                path = self.directory / f"config-{node}.json"
                path.write_text(json.dumps({**config, "rev": revision}))
                done = self.run(node, verb, f"--config={path}")
                assert done.returncode == 0, done.stderr

    def digests(self) -> list[dict[str, Any]]:
        results = []
        for node in range(len(self.engines)):
            done = self.run(node, "digest")
            assert done.returncode == 0, done.stderr
            results.append(json.loads(done.stdout))
        return results

    def load(self, rows: list[list[int]], count: int, value: bytes) -> None:
        wires = [session(engine.port) for engine in self.engines]
        for number in range(count):
            key = b"key-%d" % number
            vbucket = vbucket_of(key)
            wire = wires[rows[vbucket][0]]
            wire.send(set_frame(key, value, vbucket=vbucket))
            assert wire.answer().status == 0
        for wire in wires:
            wire.__exit__(None, None, None)

    def agree(self, rows: list[list[int]], count: int) -> bool:
        held = self.digests()
        documents = 0
        for vbucket, row in enumerate(rows):
            copies = [{**held[node][str(vbucket)], "state": ""} for node in row]
            if any(copy != copies[0] for copy in copies):
                return False
            documents += copies[0]["documents"]
        return documents == count


@pytest.fixture
def nodes(
    start_engine: Callable[..., Any], kv_engine: Path, tmp_path: Path
) -> Callable[[int], Nodes]:
    def start(count: int) -> Nodes:
        engines = [
            start_engine("--vbuckets", str(VBUCKETS), "--data-dir", str(tmp_path / f"data-{n}"))
            for n in range(count)
        ]
        return Nodes(engines, kv_engine.parent / "kvctl", tmp_path)

    return start


def test_nodes_follow_each_other_by_the_map(nodes: Callable[[int], Nodes]) -> None:
    cluster = nodes(3)
    rows = vbucket_map(3, 2, VBUCKETS)
    cluster.tell(rows, 2)
    cluster.load(rows, 300, b"first")
    until(lambda: cluster.agree(rows, 300))
    states = [{single["state"] for single in held.values()} for held in cluster.digests()]
    assert states == [{"active", "replica"}] * 3
    cluster.load(rows, 300, b"second value")
    until(lambda: cluster.agree(rows, 300))


def test_a_digest_names_a_document_of_each_vbucket(nodes: Callable[[int], Nodes]) -> None:
    cluster = nodes(1)
    cluster.load([[0]] * VBUCKETS, 5, b"of these bytes")
    (held,) = cluster.digests()
    samples = {
        int(number): single["sample"] for number, single in held.items() if single["documents"]
    }
    assert samples
    with session(cluster.engines[0].port) as wire:
        for number, sample in samples.items():
            key = bytes.fromhex(sample["key"])
            assert vbucket_of(key) == number
            answer = wire.ask(GET, key, vbucket=number)
            assert (answer.status, answer.cas) == (0, sample["cas"])
            assert zlib.crc32(answer.value) == sample["value_crc32"]
    assert all(single["sample"] is None for single in held.values() if not single["documents"])


def test_a_new_map_moves_the_replicas(nodes: Callable[[int], Nodes]) -> None:
    cluster = nodes(3)
    before = [[0, 1]] * VBUCKETS
    cluster.tell(before, 2)
    cluster.load(before, 200, b"x")
    until(lambda: cluster.agree(before, 200))
    after = [[0, 2]] * VBUCKETS
    cluster.tell(after, 3)
    until(lambda: cluster.agree(after, 200))
    assert cluster.digests()[1] == {}, "dead vBuckets are not shown"


def test_a_difference_shows(nodes: Callable[[int], Nodes]) -> None:
    cluster = nodes(2)
    rows = [[0, 1]] * VBUCKETS
    cluster.load([[0]] * VBUCKETS, 50, b"x")
    cluster.load([[1]] * VBUCKETS, 50, b"x")
    assert not cluster.agree(rows, 50), "the same values, but another CAS"


def test_the_map_in_force_is_what_clients_get(nodes: Callable[[int], Nodes]) -> None:
    cluster = nodes(2)
    with session(cluster.engines[1].port) as wire:
        assert json.loads(wire.ask(GET_CONFIG).value)["rev"] == 1
        cluster.tell([[0, 1]] * VBUCKETS, 5)
        served = json.loads(wire.ask(GET_CONFIG).value)
        assert served["rev"] == 5
        assert served["vBucketServerMap"]["serverList"] == [
            f"127.0.0.1:{engine.port}" for engine in cluster.engines
        ]
        answer = wire.ask(GET, b"key", vbucket=vbucket_of(b"key"))
        assert answer.status == NOT_MY_VBUCKET
        assert json.loads(answer.value) == served
        wire.send(frame(SET_CONFIG, value=json.dumps({**served, "rev": 4}).encode()))
        assert wire.answer().status == EXISTS
        for nonsense in (b"{}", b"no JSON", json.dumps({**served, "rev": "x"}).encode()):
            wire.send(frame(SET_CONFIG, value=nonsense))
            assert wire.answer().status == EINVAL
        assert json.loads(wire.ask(GET_CONFIG).value)["rev"] == 5


def test_only_an_administrator_publishes(start_engine: Callable[..., Any]) -> None:
    engine = start_engine(users={"ann": {"password": "secret", "role": "read-write"}})
    with Wire(engine.port) as wire:
        assert wire.ask(0x21, b"PLAIN", b"\0ann\0secret").status == 0
        wire.send(frame(SET_CONFIG, value=b"{}"))
        assert wire.answer().status in (0x24, 0x20)
