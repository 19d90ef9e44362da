"""Change a cluster under load as a cluster manager does: fail over a node, or move vBuckets to another node.

Both steps update `nodes`. Clients are not notified: they receive NOT_MY_VBUCKET or lose a connection, and then fetch
the newest map. `load_around` runs the load before, during and after a step. The step is timed on this machine, and
the load counts on its client. The offset between the client's clock and the local monotonic clock is measured, so
that an adjustment of the local wall clock has no effect.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.engine import Engine
from perfrunner.experiment.trial.nodes import Nodes, has, high_seqnos, set_state
from perfrunner.experiment.trial.placement import ClientPlacement, client_failure
from perfrunner.hosts.transport import Transport
from perfrunner.hosts.vbucket_map import VbucketMap, failed_over, fed, moved, to_move
from perfrunner.workloads.bench import Arguments, Around, Share, Step

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench, Started

POLL_S = 0.02
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
        bench.recorder.signal(client.placement.host.name, client.name, "TERM")
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
    bench.recorder.wait_for_file(host.name, path)
    while not host.exists(path):
        check()
        bench.check_engines()
        bench.time_left()
        time.sleep(POLL_S)
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
        set_state(engine, _active_on(number, promoted, nodes.rows), "active")
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


def _active_on(number: int, vbuckets: Sequence[int], rows: VbucketMap) -> list[int]:
    return [vbucket for vbucket in vbuckets if rows[vbucket][0] == number]
