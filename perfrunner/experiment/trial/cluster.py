"""Make a cluster of the engine nodes of one variant, check its copies, and change it under load.

`Nodes` holds the engines and their vBucket map. `fail_over` and `rebalance` change a cluster as a cluster manager does,
and update `Nodes`. Clients are not notified: they receive NOT_MY_VBUCKET or lose a connection, and then fetch the
newest map. `load_around` runs the load before, during and after such a step. The step is timed on this machine, and the
load counts on its client. The offset between the client's clock and the local monotonic clock is measured, so that an
adjustment of the local wall clock has no effect.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import ClientPlacement, client_failure
from perfrunner.experiment.trial.server import Engine
from perfrunner.experiment.trial.vbucket_map import (
    REVISION,
    VbucketMap,
    cluster_config,
    failed_over,
    fed,
    moved,
    to_move,
    vbucket_map,
)
from perfrunner.hosts.transport import Transport
from perfrunner.workloads.bench import Arguments, Around, Share, Step

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench, Started


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


BEGUN_POLL_S = 0.02
CLOCK_QUESTIONS = 3


def load_around(
    bench: Bench,
    tool: str,
    arguments: Arguments,
    step: Step,
    *,
    output: str,
    before: float,
    after: float,
) -> Around:
    def with_begun(share: Share) -> Sequence[str]:
        placement = bench.placements[share.index]  # one process per client
        return [*arguments(share), f"--begun={_begun_file(placement, output)}"]

    commands = [(placement, [f"{placement.tools}/bin/{tool}"]) for placement in bench.placements]
    started = bench.start_clients(commands, with_begun, output, in_step=True)
    check = _liveness_check(tool, started)
    begun = [_wait_begun(bench, client, output, check) for client in started]
    first = bench.placements[0].host
    zero = begun[0] - clock_ahead(first)  # start of the load on the local monotonic clock

    bench.pause(before, check)
    began = time.monotonic()
    facts = step()
    ended = time.monotonic()
    bench.pause(after, check)

    for client in started:
        bench.trial.recorder.signal(client.placement.host.name, client.name, "TERM")
        client.handle.signal(signal.SIGTERM)
    bench.wait_clients(tool, started, bench.check_engines)
    return Around(bench.printed(started), began - zero, ended - zero, facts)


def clock_ahead(host: Transport) -> float:
    """Return a host's clock minus the local monotonic clock, within half the fastest round trip."""
    answers = []
    for _ in range(CLOCK_QUESTIONS):
        asked = time.monotonic()
        there = float(host.run(["date", "+%s.%N"]).stdout)
        answered = time.monotonic()
        answers.append((answered - asked, there - (asked + answered) / 2))
    return min(answers)[1]


def _begun_file(placement: ClientPlacement, output: str) -> str:
    return f"{placement.directory}/{output}.begun"


def _wait_begun(bench: Bench, started: Started, output: str, check: Callable[[], None]) -> float:
    """Wait for the mixed phase; return its start in seconds since 1970 by the host's clock."""
    host, path = started.placement.host, _begun_file(started.placement, output)
    bench.trial.recorder.wait_for_file(host.name, path)
    while not host.exists(path):
        check()
        bench.check_engines()
        bench.time_left()
        time.sleep(BEGUN_POLL_S)
    text = host.read_text(path).strip()
    if not text.isdigit():
        raise TrialError(f"{path} on {host.name}: expected a time, got {text[:40]!r}")
    return int(text) / 1e9


def _liveness_check(tool: str, started: Sequence[Started]) -> Callable[[], None]:
    """Return a function that raises TrialError if a load process has ended early."""

    def check() -> None:
        for client in started:
            if (status := client.handle.poll()) is not None:
                raise client_failure(tool, client.placement, client.name, status)

    return check


def fail_over(nodes: Nodes, dead: int) -> Mapping[str, object]:
    """Activate the vBuckets of a dead node on the most advanced replicas; send the new map to the other nodes."""
    gone, before = nodes.engines[dead], nodes.rows
    high = [{} if engine is gone else high_seqnos(engine) for engine in nodes.engines]
    nodes.rows = failed_over(before, dead, high)
    nodes.engines = [engine for engine in nodes.engines if engine is not gone]
    promoted = [vbucket for vbucket, row in enumerate(before) if row[0] == dead]
    for number, engine in enumerate(nodes.engines):
        own = [vbucket for vbucket in promoted if nodes.rows[vbucket][0] == number]
        set_state(engine, own, "active")
    nodes.publish(nodes.rows, range(len(nodes.engines)))
    return {"kind": "failover", "killed": gone.host.name, "promoted_vbuckets": len(promoted)}


def rebalance(
    nodes: Nodes, source: int, target: int, share: float, at_once: int
) -> Mapping[str, object]:
    """Move a share (percent) of the active vBuckets of `source` to `target`, `at_once` at a time."""
    vbuckets = to_move(nodes.rows, source, share)
    for first in range(0, len(vbuckets), at_once):
        _move(nodes, vbuckets[first : first + at_once], source, target)
    return {
        "kind": "rebalance",
        "from": nodes.engines[source].host.name,
        "to": nodes.engines[target].host.name,
        "moved_vbuckets": len(vbuckets),
    }


def _move(nodes: Nodes, vbuckets: Sequence[int], source: int, target: int) -> None:
    """Move vBuckets: the target replicates, the source stops accepting writes, the target catches up and takes over."""
    old, new = nodes.engines[source], nodes.engines[target]
    fresh = [vbucket for vbucket in vbuckets if target not in nodes.rows[vbucket]]
    if fresh:
        set_state(new, fresh, "replica")
        # Only the target needs this map, to start replication; nothing changes for clients.
        nodes.publish(fed(nodes.rows, fresh, target), [target])
    _wait_in_step(nodes, vbuckets, old, new)

    set_state(old, vbuckets, "replica")  # from here on writes are refused, and the rest is streamed
    _wait_in_step(nodes, vbuckets, old, new)
    set_state(new, vbuckets, "active")
    nodes.rows = moved(nodes.rows, vbuckets, target)
    others = [number for number in range(len(nodes.engines)) if number != target]
    nodes.publish(nodes.rows, [target, *others])

    set_state(old, [vbucket for vbucket in vbuckets if source not in nodes.rows[vbucket]], "dead")


def _wait_in_step(nodes: Nodes, vbuckets: Sequence[int], old: Engine, new: Engine) -> None:
    """Wait until the new node has everything that the old one has now."""
    high = high_seqnos(old)
    wanted = {vbucket: high[vbucket] for vbucket in vbuckets}
    nodes.until(
        lambda: has(high_seqnos(new), wanted),
        f"{new.host.name} does not catch up with {old.host.name}",
    )
