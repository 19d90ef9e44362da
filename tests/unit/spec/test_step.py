"""Workloads of type step: what cannot be done is refused with its line."""

from __future__ import annotations

import pytest

from perfrunner.experiment.plan import Grouping, groupings
from perfrunner.spec.metrics import OF_STEPS
from perfrunner.spec.workloads.step import StepSpec

PF = "{type: pillowfight, items: 10k, duration: 5s}"
CLUSTER = """\
name: several
transport: ssh
hosts: {a: {address: 192.0.2.1}, b: {address: 192.0.2.2}, c: {address: 192.0.2.3}}
engine_nodes: [%s]
load_clients: [a]
replicas: %d
"""


def step(kind: str = "failover", keys: str = "") -> str:
    return f"{{type: step, change: {kind}, items: 10k{keys}}}"


@pytest.fixture
def clusters(specs):
    specs.write("replicas.yaml", CLUSTER % ("a, b", 1))
    specs.write("plain.yaml", CLUSTER % ("a, b", 0))
    specs.write("one.yaml", CLUSTER % ("a", 0))
    return specs


def text_with(specs, workload: str) -> str:
    from tests.unit.spec.conftest import SPEC

    assert PF in SPEC
    return SPEC.replace(PF, workload)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (step(keys=", schedule: interleaved"), "pf.schedule: expected sequential: a step changes the cluster"),
        (step(keys=", profile: perf"), "pf.profile: expected no profile: a killed process leaves none"),
        (step(keys=", settle: 1s"), "pf.settle: expected 0: no memory is read after a step"),
        (step(keys=", share: 20"), "pf.share: expected no value: only a rebalance uses this key"),
        (step(keys=", at_once: 8"), "pf.at_once: expected no value: only a rebalance uses this key"),
        (step("rebalance", ", detection: 1s"), "pf.detection: expected no value: only a failover uses this key"),
        (step("rebalance", ", share: 0"), "pf.share: expected more than 0"),
        (step("failovr"), "pf.change: expected 'failover' or 'rebalance', got 'failovr' (did you mean failover?)"),
        (step(keys=", before: 500ms"), "pf.before: expected at least 1"),
        (step(keys=", after: 0"), "pf.after: expected at least 1"),
        (step(keys=", batch: 1000, value_size: 1MiB"), "pf.batch: expected at most 256: a batch is limited to 256 MiB"),
        ("{type: step, change: failover, items: 10, threads: 3, connections: 4}",
         "pf.connections: expected at most 3: each connection of 3 threads needs its own key"),
        (step(keys=", duration: 5s"), "pf.duration: unknown key"),
        ("{type: step, items: 10k}", "pf.change: required key is missing"),
    ],
)  # fmt: skip
def test_what_is_refused(clusters, workload, message):
    (output,) = clusters.errors(text_with(clusters, workload), cluster="replicas.yaml")
    assert output.startswith("spec.yaml:8: workloads.")
    assert message in output


@pytest.mark.parametrize(
    ("kind", "cluster", "message"),
    [
        ("failover", "plain.yaml", "pf.change: expected a cluster with replicas for a failover; several has none"),
        ("failover", "one.yaml", "pf.change: expected a cluster with replicas for a failover; several has none"),
        ("rebalance", "one.yaml", "pf.change: expected two engine nodes or more for a rebalance; several has 1"),
        ("rebalance", "cluster.yaml", "pf.change: expected two engine nodes or more for a rebalance; here has 1"),
    ],
)  # fmt: skip
def test_a_cluster_that_cannot_do_it_is_refused(clusters, kind, cluster, message):
    (output,) = clusters.errors(text_with(clusters, step(kind)), cluster=cluster)
    assert output.startswith("spec.yaml:8: workloads.")
    assert message in output


@pytest.mark.parametrize(
    ("kind", "cluster"),
    [("failover", "replicas.yaml"), ("rebalance", "replicas.yaml"), ("rebalance", "plain.yaml")],
)
def test_its_variants_run_one_after_the_other_and_the_plan_says_why(clusters, kind, cluster):
    spec = clusters.spec(text_with(clusters, step(kind)), cluster=cluster)
    assert groupings(spec, None) == {"pf": Grouping("sequential", 1, StepSpec.ALONE)}
    workload = spec.workloads["pf"]
    assert workload.least_seconds == pytest.approx(12.0)
    assert workload.expected_seconds > workload.least_seconds


def test_only_it_gives_the_metrics_of_steps(clusters):
    (output,) = clusters.added_errors("primary: [lost_writes]")
    assert "measures; got lost_writes" in output
    more = f"\nprimary: [{', '.join(OF_STEPS[:3])}]\n"
    spec = clusters.spec(text_with(clusters, step()) + more, cluster="replicas.yaml")
    assert spec.primary == OF_STEPS[:3]
    more = "\nprimary: [rss_bytes]\n"
    (output,) = clusters.errors(text_with(clusters, step()) + more, cluster="replicas.yaml")
    assert "measures; got rss_bytes" in output


def test_an_sdk_workload_needs_replicas_for_a_failover(clusters):
    workload = "{type: sdk, items: 10k, failover: true}"
    (output,) = clusters.errors(text_with(clusters, workload), cluster="plain.yaml")
    assert "pf.failover: expected false: the cluster has no replicas to promote" in output
    spec = clusters.spec(text_with(clusters, workload), cluster="replicas.yaml")
    assert spec.workloads["pf"].failover
