"""Where vBuckets live: balanced, no two copies on one node, and a config that says the same."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.cluster.vbucket_map import cluster_config, vbucket_map


@given(st.integers(1, 9), st.integers(0, 3), st.sampled_from([1, 3, 16, 64, 1000, 1024]))
def test_the_map_is_balanced(nodes: int, replicas: int, vbuckets: int) -> None:
    if replicas >= nodes:
        with pytest.raises(ValueError, match=f"{replicas} replicas need"):
            vbucket_map(nodes, replicas, vbuckets)
        return
    rows = vbucket_map(nodes, replicas, vbuckets)
    assert len(rows) == vbuckets
    assert all(len(set(row)) == len(row) == 1 + replicas for row in rows), "copies are apart"
    assert all(0 <= node < nodes for row in rows for node in row)
    active = Counter(row[0] for row in rows)
    assert max(active.values()) - min(active[n] for n in range(nodes)) <= 1
    for node in range(nodes):  # and the load of a failed node falls on all others alike
        after = Counter(row[1] for row in rows if row[0] == node and replicas)
        if after:
            others = [after[n] for n in range(nodes) if n != node]
            assert max(others) - min(others) <= 1


def test_the_config_of_a_node() -> None:
    rows = vbucket_map(2, 1, 4)
    config = json.loads(cluster_config([("10.0.0.1", 4001), ("fe80::1", 4002)], rows, this=1))
    assert config["rev"] > 1, "newer than the config that an engine begins with"
    assert [node.get("thisNode", False) for node in config["nodesExt"]] == [False, True]
    served = config["vBucketServerMap"]
    assert served["serverList"] == ["10.0.0.1:4001", "[fe80::1]:4002"]
    assert served["numReplicas"] == 1
    assert served["vBucketMap"] == [[0, 1], [1, 0], [0, 1], [1, 0]]
