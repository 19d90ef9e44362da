"""Compute vBucket maps, their changes by a failover or a rebalance, and the cluster config that publishes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from perfrunner.experiment.trial.placement import bracketed

REVISION = 2  # the one-node config of an engine is revision 1
NOBODY = -1  # in a config: no such copy exists

VbucketMap = list[list[int]]  # by vBucket: the number of the active node, then of the replicas


def vbucket_map(nodes: int, replicas: int, vbuckets: int) -> VbucketMap:
    """Return a balanced map.

    Nodes differ by at most one active vBucket, and the replicas of a node are spread evenly over all others. Raises
    ValueError when a vBucket would have two copies on one node.
    """
    if not 0 <= replicas < nodes:
        raise ValueError(
            f"{replicas} replicas need {replicas + 1} nodes or more; there are {nodes}"
        )
    rows = []
    for vbucket in range(vbuckets):
        active = vbucket % nodes
        others = [(active + 1 + n) % nodes for n in range(nodes - 1)]
        first = vbucket // nodes
        rows.append([active, *(others[(first + n) % len(others)] for n in range(replicas))])
    return rows


def failed_over(rows: VbucketMap, dead: int, high: Sequence[Mapping[int, int]]) -> VbucketMap:
    """Return the map of the remaining nodes, which are renumbered without a gap.

    If a vBucket was active on the dead node, its most complete replica becomes active. `high` has the last seqno of
    each vBucket, by the old number of the node. Raises ValueError when a vBucket has no replica.
    """
    left = []
    for vbucket, row in enumerate(rows):
        copies = [node for node in row if node != dead]
        if not copies:
            raise ValueError(f"vBucket {vbucket} has no copy besides the one on the dead node")
        if row[0] == dead:
            first = max(copies, key=lambda node: high[node].get(vbucket, -1))
            copies = [first, *(node for node in copies if node != first)]
        left.append([node - (node > dead) for node in copies])
    return left


def to_move(rows: VbucketMap, source: int, share: float) -> list[int]:
    """Select `share` percent (rounded) of the vBuckets that are active on `source`, evenly spread."""
    active = [vbucket for vbucket, row in enumerate(rows) if row[0] == source]
    count = round(len(active) * share / 100.0)
    return [active[n * len(active) // count] for n in range(count)]


def moved(rows: VbucketMap, vbuckets: Sequence[int], target: int) -> VbucketMap:
    """Return the map after these vBuckets have become active on `target`.

    If `target` had a replica, the former active copy becomes the replica.
    """
    changed = [list(row) for row in rows]
    for vbucket in vbuckets:
        active, *replicas = rows[vbucket]
        changed[vbucket] = [target, *(active if node == target else node for node in replicas)]
    return changed


def fed(rows: VbucketMap, vbuckets: Sequence[int], target: int) -> VbucketMap:
    """Return the map with an additional replica of these vBuckets on `target`, unless it has a copy."""
    changed = [list(row) for row in rows]
    for vbucket in vbuckets:
        if target not in rows[vbucket]:
            changed[vbucket].append(target)
    return changed


def cluster_config(
    servers: Sequence[tuple[str, int]],
    rows: VbucketMap,
    *,
    this: int,
    revision: int = REVISION,
) -> str:
    """Return the cluster config of node number `this`, the JSON that Couchbase's SDKs and our load tools read.

    `servers` are (address, port) by node number.
    """
    names = [f"{bracketed(address)}:{port}" for address, port in servers]
    width = max(len(row) for row in rows)
    nodes = [
        {"hostname": name, "ports": {"direct": port}}
        for name, (_, port) in zip(names, servers, strict=True)
    ]
    # Two SDKs require a management port. The engine closes HTTP connections to it, which they accept.
    extended = [
        {
            "services": {"kv": port, "mgmt": port},
            "hostname": address,
            **({"thisNode": True} if number == this else {}),
        }
        for number, (address, port) in enumerate(servers)
    ]
    return json.dumps(
        {
            "rev": revision,
            "revEpoch": 1,
            "name": "default",
            "nodeLocator": "vbucket",
            "nodes": nodes,
            "nodesExt": extended,
            # The engine does not wait for replicas, so it offers durable writes only without them.
            "bucketCapabilities": [
                "cbhello",
                *(["durableWrite"] if width == 1 else []),
                "nodesExt",
            ],
            "bucketCapabilitiesVer": "",
            "vBucketServerMap": {
                "hashAlgorithm": "CRC",
                "numReplicas": width - 1,
                "serverList": names,
                "vBucketMap": [row + [NOBODY] * (width - len(row)) for row in rows],
            },
        }
    )
