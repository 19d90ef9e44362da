"""Which node has which vBucket, and the cluster config that says so to nodes and clients."""

from __future__ import annotations

import json
from collections.abc import Sequence

REVISION = 2  # an engine's own one-node config is revision 1

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


def cluster_config(
    servers: Sequence[tuple[str, int]], rows: VbucketMap, *, this: int, bucket: str = "default"
) -> str:
    """The JSON text for node number `this`: what couchbase's SDKs, libcouchbase and our load tools read.

    `servers` are (address, port) by node number.
    """
    names = [f"{bracketed(address)}:{port}" for address, port in servers]
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
            "rev": REVISION,
            "revEpoch": 1,
            "name": bucket,
            "nodeLocator": "vbucket",
            "nodes": nodes,
            "nodesExt": extended,
            "bucketCapabilities": ["cbhello", "durableWrite", "nodesExt"],
            "bucketCapabilitiesVer": "",
            "vBucketServerMap": {
                "hashAlgorithm": "CRC",
                "numReplicas": len(rows[0]) - 1,
                "serverList": names,
                "vBucketMap": rows,
            },
        }
    )


def bracketed(address: str) -> str:
    """An IPv6 address as it stands before a port."""
    return f"[{address}]" if ":" in address else address
