"""Change a cluster under load as a cluster manager does: fail over a node, or move vBuckets to another node.

Both update `nodes`. Clients are not notified: they receive NOT_MY_VBUCKET or lose a connection, and then fetch the
newest map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfrunner.experiment.trial.engine import Engine
from perfrunner.experiment.trial.nodes import Nodes, has, high_seqnos, set_state
from perfrunner.hosts.vbucket_map import VbucketMap, failed_over, fed, moved, to_move


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
