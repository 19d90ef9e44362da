"""Form a cluster of several engines, wait for replication, and compare all copies of the documents.

As a cluster manager does, set the states of the vBuckets on every node first, and then the map, by which clients
route and replicas follow their active copies. steps.py changes a cluster under load.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.engine import Engine
from perfrunner.hosts.vbucket_map import REVISION, VbucketMap, cluster_config, vbucket_map

POLL_S = 0.1
SHOWN = 3  # maximum number of differences that a message names

Digests = Mapping[str, Mapping[str, object]]  # by vBucket, as kvctl digest prints them


@dataclass(frozen=True)
class Sampled:
    """A document as an active node's DCP stream shows it."""

    key: str
    cas: int
    value_crc32: int
    copies: int  # number of copies by the map, which differs between documents after a failover


@dataclass(frozen=True)
class Checked:
    """The result of a successful comparison; `sample` has a document of every non-empty vBucket."""

    documents: int
    copies: int  # minimum number of copies per document
    sample: Sequence[Sampled]


@dataclass
class Nodes:
    """The engines of one variant as a cluster, in the order of the cluster file. A single engine needs no map."""

    engines: Sequence[Engine]
    replicas: int
    vbuckets: int
    check: Callable[[], None]  # raises if an engine died
    left: Callable[[], float]  # returns the seconds left for the trial; raises TrialError if none
    rows: VbucketMap = field(init=False)
    revision: int = field(default=REVISION, init=False)  # revision of the newest published map

    def __post_init__(self) -> None:
        self.rows = vbucket_map(len(self.engines), self.replicas, self.vbuckets)

    def form(self) -> None:
        """Form the cluster and wait until every replica streams from its active node."""
        if len(self.engines) == 1:
            return
        everyone = range(len(self.engines))
        for number in everyone:
            self._write_config(number, self.rows)
        for verb in ("set-states", "set-config"):
            for engine in self.engines:
                engine.kvctl([verb, f"--config={_config_path(engine)}"])
        for number, engine in enumerate(self.engines):
            wanted = sum(number in row[1:] for row in self.rows)
            self.until(
                lambda engine=engine, wanted=wanted: _streams(engine) >= wanted,  # type: ignore[misc]
                f"the replicas on {engine.host.name} do not receive their streams",
            )

    def publish(self, rows: VbucketMap, numbers: Iterable[int]) -> None:
        """Send a map with a new revision to these nodes."""
        self.revision += 1
        for number in numbers:
            self._write_config(number, rows)
            engine = self.engines[number]
            engine.kvctl(["set-config", f"--config={_config_path(engine)}"])

    def _write_config(self, number: int, rows: VbucketMap) -> None:
        servers = [(engine.setup.address, engine.port) for engine in self.engines]
        engine = self.engines[number]
        text = cluster_config(servers, rows, this=number, revision=self.revision)
        path = _config_path(engine)
        engine.host.put_bytes(text.encode(), path)
        engine.recorder.write_file(engine.host.name, path, text)

    def wait_replicated(self) -> None:
        """Wait until every replica has reached the current seqno of its active copy."""
        if self.replicas == 0 or len(self.engines) == 1:
            return
        active = [high_seqnos(engine) for engine in self.engines]
        for number, engine in enumerate(self.engines):
            wanted = {
                vbucket: active[row[0]][vbucket]
                for vbucket, row in enumerate(self.rows)
                if number in row[1:]
            }
            self.until(
                lambda engine=engine, wanted=wanted: has(high_seqnos(engine), wanted),  # type: ignore[misc]
                f"the replicas on {engine.host.name} do not catch up",
            )

    def verify(self) -> Checked:
        """Check that every document has the same value, CAS and seqno on its active node and all replicas.

        Raises TrialError, with the first differences, otherwise.
        """
        self.wait_replicated()
        held = [self._digests(engine) for engine in self.engines]
        if wrong := differences(self.rows, held, [engine.host.name for engine in self.engines]):
            more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise TrialError(f"copies differ: {'; '.join(wrong[:SHOWN])}{more}")
        active = [held[row[0]][str(vbucket)] for vbucket, row in enumerate(self.rows)]
        return Checked(
            documents=sum(int(str(digest["documents"])) for digest in active),
            copies=min(map(len, self.rows)),
            sample=[
                _sampled(digest["sample"], len(row))
                for digest, row in zip(active, self.rows, strict=True)
                if digest.get("sample")
            ],
        )

    def _digests(self, engine: Engine) -> Digests:
        text = engine.kvctl(["digest"], timeout=self.left()).stdout
        try:
            digests = json.loads(text)
        except ValueError as error:
            raise TrialError(f"kvctl digest printed no JSON ({error}): {text[:200]}") from None
        if not isinstance(digests, dict):
            raise TrialError(f"kvctl digest printed no object: {text[:200]}")
        return digests

    def until(self, holds: Callable[[], bool], complaint: str) -> None:
        while not holds():
            self.check()
            try:
                self.left()
            except TrialError as error:
                raise TrialError(f"{complaint}: {error}", error.hint) from None
            time.sleep(POLL_S)


def differences(rows: VbucketMap, held: Sequence[Digests], names: Sequence[str]) -> list[str]:
    """Return all differences between the copies and the map, as text. `held` has the digests of each node."""
    problems = []
    for vbucket, row in enumerate(rows):
        key = str(vbucket)
        first = held[row[0]].get(key)
        if first is None or first["state"] != "active":
            problems.append(f"vBucket {vbucket} is not active on {names[row[0]]}")
            continue
        for node in row[1:]:
            copy = held[node].get(key)
            if copy is None or copy["state"] != "replica":
                problems.append(f"vBucket {vbucket} is no replica on {names[node]}")
            elif {**copy, "state": ""} != {**first, "state": ""}:
                problems.append(
                    f"vBucket {vbucket}: {names[row[0]]} has {_shown(first)}, {names[node]} {_shown(copy)}"
                )
        problems += [
            f"vBucket {vbucket} is on {names[node]}, where the map has none"
            for node in range(len(held))
            if node not in row and key in held[node]
        ]
    return problems


def _sampled(sample: Any, copies: int) -> Sampled:
    key = bytes.fromhex(sample["key"]).decode()  # keys of our loads are text
    return Sampled(key, int(sample["cas"]), int(sample["value_crc32"]), copies)


def _shown(copy: Mapping[str, object]) -> str:
    return f"{copy['documents']} documents up to seqno {copy['high_seqno']}"


def _config_path(engine: Engine) -> str:
    return f"{engine.setup.directory}/{engine.setup.name}-cluster.json"


def _streams(engine: Engine) -> int:
    return int(engine.stat("replication")["replication"].get("streams_opened", "0"))


def set_state(engine: Engine, vbuckets: Sequence[int], state: str) -> None:
    """Set the state of some vBuckets."""
    if vbuckets:
        numbers = ",".join(map(str, vbuckets))
        engine.kvctl(["set-state", f"--state={state}", f"--vbuckets={numbers}"])


def high_seqnos(engine: Engine) -> dict[int, int]:
    """Return the high seqno of every vBucket of the engine."""
    seqnos = {}
    for key, value in engine.stat("vbucket-seqno")["vbucket-seqno"].items():
        name, _, figure = key.partition(":")
        if figure == "high_seqno":
            seqnos[int(name.removeprefix("vb_"))] = int(value)
    return seqnos


def has(seqnos: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(seqnos.get(vbucket, -1) >= seqno for vbucket, seqno in wanted.items())
