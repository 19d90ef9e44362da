"""Which node has which vBucket, how a failover and a rebalance change that, and the cluster config that says so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

REVISION = 2  # an engine's own one-node config is revision 1
NOBODY = -1  # in a config: there is no such copy

VbucketMap = list[list[int]]  # by vBucket: the number of the active node, then of the replicas


def vbucket_map(nodes: int, replicas: int, vbuckets: int) -> VbucketMap:
    """Balanced: every node has as many active vBuckets as any other, give or take one, and its replicas are
    spread evenly over all others. ValueError when a vBucket would have two copies on one node.
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
    """The map of the nodes that are left, which are numbered anew without a gap.

    Of a vBucket that was active on the dead node the replica that has most of it becomes active: `high` has the last
    seqno of each vBucket by node, by its old number. ValueError when there is no replica.
    """
    left = []
    for vbucket, row in enumerate(rows):
        copies = [node for node in row if node != dead]
        if not copies:
            raise ValueError(f"vBucket {vbucket} has no copy beside the one on the dead node")
        if row[0] == dead:
            first = max(copies, key=lambda node: high[node].get(vbucket, -1))
            copies = [first, *(node for node in copies if node != first)]
        left.append([node - (node > dead) for node in copies])
    return left


def to_move(rows: VbucketMap, source: int, share: float) -> list[int]:
    """So many (percent, rounded) of the vBuckets that are active on `source`, spread over all of them."""
    active = [vbucket for vbucket, row in enumerate(rows) if row[0] == source]
    count = round(len(active) * share / 100.0)
    return [active[n * len(active) // count] for n in range(count)]


def moved(rows: VbucketMap, vbuckets: Sequence[int], target: int) -> VbucketMap:
    """These vBuckets are active on `target`. Where that was a replica, the copy that was active takes its place."""
    changed = [list(row) for row in rows]
    for vbucket in vbuckets:
        active, *replicas = rows[vbucket]
        changed[vbucket] = [target, *(active if node == target else node for node in replicas)]
    return changed


def fed(rows: VbucketMap, vbuckets: Sequence[int], target: int) -> VbucketMap:
    """As they are, with a further replica on `target` where it has none."""
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
    bucket: str = "default",
    revision: int = REVISION,
) -> str:
    """The JSON text for node number `this`: what couchbase's SDKs, libcouchbase and our load tools read.

    `servers` are (address, port) by node number.
    """
    names = [f"{bracketed(address)}:{port}" for address, port in servers]
    width = max(len(row) for row in rows)
    nodes = [
        {"hostname": name, "ports": {"direct": port}}
        for name, (_, port) in zip(names, servers, strict=True)
    ]
    # A management port is demanded by two SDKs; the engine answers HTTP there by closing, which they accept.
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
            "name": bucket,
            "nodeLocator": "vbucket",
            "nodes": nodes,
            "nodesExt": extended,
            # The engine waits for no replica: where there are some it keeps no durable write.
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


def bracketed(address: str) -> str:
    """An IPv6 address as it stands before a port."""
    return f"[{address}]" if ":" in address else address
