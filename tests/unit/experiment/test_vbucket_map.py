"""Where vBuckets live: balanced, no two copies on one node, and a config that says the same."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.experiment.trial.vbucket_map import (
    cluster_config,
    failed_over,
    fed,
    moved,
    to_move,
    vbucket_map,
)


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


def test_durable_writes_are_offered_where_there_are_no_replicas() -> None:
    servers = [("h", 1), ("h", 2)]
    for rows, offered in ([[0], [1]], True), ([[0], [1, 0]], False):
        config = json.loads(cluster_config(servers, rows, this=0))
        assert ("durableWrite" in config["bucketCapabilities"]) is offered


@given(st.integers(2, 6), st.integers(1, 3), st.sampled_from([3, 16, 64]), st.randoms())
def test_a_failover_leaves_every_copy_but_the_dead_nodes(nodes, replicas, vbuckets, draw) -> None:
    if replicas >= nodes:
        return
    rows = vbucket_map(nodes, replicas, vbuckets)
    dead = draw.randrange(nodes)
    high = [{vb: draw.randrange(3) for vb in range(vbuckets)} for _ in range(nodes)]
    left = failed_over(rows, dead, high)
    old = [node for node in range(nodes) if node != dead]  # by their new numbers
    for vbucket, (before, after) in enumerate(zip(rows, left, strict=True)):
        copies = [old[node] for node in after]
        assert sorted(copies) == sorted(node for node in before if node != dead)
        if before[0] != dead:
            assert copies[0] == before[0], "what is active elsewhere stays"
        else:
            most = max(high[node][vbucket] for node in copies)
            assert high[copies[0]][vbucket] == most, "who has most of it is promoted"


def test_of_two_replicas_that_have_the_same_the_first_is_promoted() -> None:
    assert failed_over([[2, 1, 0]], 2, [{0: 5}, {0: 5}, {}]) == [[1, 0]]
    assert failed_over([[2, 1, 0]], 2, [{0: 6}, {0: 5}, {}]) == [[0, 1]]
    assert failed_over([[0, 1]], 0, [{}, {}]) == [[0]], "numbered anew"


def test_without_a_replica_there_is_no_failover() -> None:
    with pytest.raises(ValueError, match="vBucket 1 has no copy besides"):
        failed_over([[0], [1]], 1, [{}, {}])


@pytest.mark.parametrize(("share", "count"), [(50, 16), (100, 32), (1, 0), (10, 3)])
def test_what_moves_is_spread_over_the_nodes_vbuckets(share: float, count: int) -> None:
    rows = vbucket_map(2, 0, 64)
    chosen = to_move(rows, 1, share)
    assert len(set(chosen)) == len(chosen) == count
    assert all(rows[vbucket] == [1] for vbucket in chosen)
    if count == 16:
        assert chosen[:3] == [1, 5, 9]


@given(st.integers(2, 6), st.integers(0, 3), st.sampled_from([3, 16, 64]))
def test_a_move_keeps_the_number_of_copies_and_keeps_them_apart(nodes, replicas, vbuckets) -> None:
    if replicas >= nodes:
        return
    rows = vbucket_map(nodes, replicas, vbuckets)
    chosen = to_move(rows, 0, 50)
    growing, after = fed(rows, chosen, 1), moved(rows, chosen, 1)
    for vbucket in range(vbuckets):
        assert len(set(after[vbucket])) == len(after[vbucket]) == 1 + replicas
        if vbucket not in chosen:
            assert rows[vbucket] == growing[vbucket] == after[vbucket]
            continue
        assert after[vbucket][0] == 1
        assert growing[vbucket][0] == 0
        assert growing[vbucket][: 1 + replicas] == rows[vbucket], "nothing is taken away"
        assert growing[vbucket].count(1) == 1
    if replicas and nodes == 2:
        assert all(after[vbucket] == [1, 0] for vbucket in chosen), "they change places"


def test_a_config_of_unequal_rows_says_where_there_is_no_copy() -> None:
    config = json.loads(cluster_config([("h", 1), ("h", 2)], [[0, 1], [1]], this=0, revision=7))
    assert config["rev"] == 7
    assert config["vBucketServerMap"]["vBucketMap"] == [[0, 1], [1, -1]]
    assert config["vBucketServerMap"]["numReplicas"] == 1
