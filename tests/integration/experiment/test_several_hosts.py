"""Two engine nodes, two load clients: one cluster, shared work, and figures that are added up."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.placement import Credentials, Deployed, Placement, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.loader import load_spec
from tests.support.fakes import APPEND, PILLOWFIGHT, Lab, write_artifact

pytestmark = pytest.mark.integration


def run_trial(lab: Lab, workload: str, **changes: object) -> TrialResult:
    """Alone, over two engine nodes and two load clients."""
    (result,) = run_unit(
        lab,
        [TrialKey(1, 1, 1, workload, "persistent", "base")],
        ("kv1", "kv2"),
        ("load1", "load2"),
        **changes,
    )
    return result


def run_unit(
    lab: Lab,
    tasks: Sequence[TrialKey],
    nodes: Sequence[str],
    clients: Sequence[str],
    **changes: object,
) -> list[TrialResult]:
    cluster = {
        "name": "several", "transport": "ssh", "hosts": {name: {} for name in (*nodes, *clients)},
        "engine_nodes": list(nodes), "load_clients": list(clients), "replicas": len(nodes) - 1,
    }  # fmt: skip
    lab.write_spec(workloads={"pf": PILLOWFIGHT, "app": APPEND}, cluster=cluster, **changes)
    artifact = write_artifact(lab.directory / "artifact")
    credentials = Credentials()
    with contextlib.ExitStack() as stack:

        def placement(name: str) -> Placement:
            spec = HostSpec(work_dir=str(lab.work / name))
            host: Host = stack.enter_context(open_host(spec, "local", name=name, run_id="r"))
            run_dir = f"{host.work_dir}/runs/r"
            files = credentials.install(host.transport, f"{run_dir}/secret")
            return Placement(host.transport, run_dir, files, "127.0.0.1", "127.0.0.1", None)

        placements = [placement(name) for name in (*nodes, *clients)]
        runner = TrialRunner(
            TrialSetup(
                spec=load_spec(lab.spec_path, [], None),
                run_id="r",
                seed=7,
                engine_nodes=placements[: len(nodes)],
                load_clients=placements[len(nodes) :],
                shield=contextlib.nullcontext,
                on_phase=lambda phase: None,
                hurry=lambda: False,
            ),
            trials_dir=lab.out / "trials",
            host_changes=list,
        )
        paths = {s.host.name: str(artifact) for s in placements}
        env = {name: dict(variant.env) for name, variant in runner.setup.spec.variants.items()}
        deployed = {task.variant: Deployed("b", paths, env[task.variant], paths) for task in tasks}
        return runner.run(tasks, deployed)


def test_every_client_drives_the_whole_cluster_with_its_own_share_of_the_keys(lab: Lab) -> None:
    result = run_trial(lab, "pf")
    assert (result.status, result.reason) == ("ok", "")
    reports = [json.loads((result.directory / f"client-{n}.json").read_text()) for n in (1, 2)]
    shares = [(r["options"]["start-at"][0], r["options"]["num-items"][0]) for r in reports]
    assert shares == [("0", "50"), ("50", "50")]
    assert len({r["options"]["port"][0] for r in reports}) == 1, "the map says where the others are"
    assert len({r["options"]["random-seed"][0] for r in reports}) == 2
    assert len({r["options"]["barrier"][0] for r in reports}) == 1, "they begin together"
    # each of two processes reports about 100 000 operations a second, each of two nodes 700 000 bytes
    assert result.metrics["ops_per_s"] == pytest.approx(200_000, rel=0.05)
    assert result.metrics["mem_used_bytes"] == 1_400_000
    assert (
        result.metrics["latency_set_p50_us"] == 220 or result.metrics["latency_set_p50_us"] == 110
    )
    kept = {path.name for path in result.directory.iterdir()}
    assert {"engine-kv1.log", "engine-kv2.log", "samples-1.jsonl", "samples-2.jsonl"} <= kept
    script = (result.directory / "reproduce.sh").read_text()
    assert script.count("set-states") == script.count("set-config") == 2
    lab.assert_nothing_left()


def test_the_engines_learn_what_they_are_of_the_cluster(lab: Lab) -> None:
    result = run_trial(lab, "app")
    configs = [
        json.loads((result.directory / f"engine-kv{n}-cluster.json").read_text()) for n in (1, 2)
    ]
    this = [[node.get("thisNode", False) for node in c["nodesExt"]] for c in configs]
    assert this == [[True, False], [False, True]]
    maps = [c["vBucketServerMap"] for c in configs]
    assert maps[0] == maps[1]
    assert maps[0]["vBucketMap"] == [[0, 1], [1, 0]] * 8
    assert len(set(maps[0]["serverList"])) == 2


def test_copies_are_compared_where_the_spec_asks_for_it(lab: Lab) -> None:
    result = run_trial(lab, "app", engine={"vbuckets": 16, "quota_mb": 64, "verify": "replicas"})
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["verified"] == {"documents": 160, "copies": 2}


def test_a_copy_that_lacks_a_document_fails_the_trial(lab: Lab) -> None:
    loses = {"allocator": {"name": "system"}, "env": {"FAKE_LOSES": "127.0.0.1"}}
    result = run_trial(
        lab,
        "app",
        engine={"vbuckets": 16, "quota_mb": 64, "verify": "replicas"},
        variants={"base": loses},
    )
    assert result.status == "failed"
    assert "kv1 has 10 documents up to seqno 10, kv2 9 documents up to seqno 10" in result.reason
    assert "and 13 more" in result.reason
    lab.assert_nothing_left()


def test_append_has_one_process(lab: Lab) -> None:
    result = run_trial(lab, "app")
    assert (result.status, result.reason) == ("ok", "")
    report = json.loads((result.directory / "client.json").read_text())
    assert report["options"]["items"] == ["100"]
    assert not (result.directory / "client-1.json").exists()


def test_small_clusters_live_side_by_side_and_the_cpu_time_of_a_variant_is_that_of_all_its_nodes(
    lab: Lab,
) -> None:
    tasks = [
        TrialKey(1, 1, n, "pf", "persistent", v, group=1)
        for n, v in enumerate(("changed", "base"), 1)
    ]
    spec = {"engine": {"vbuckets": 16, "quota_mb": 64, "verify": "replicas"}}
    results = run_unit(lab, tasks, ["kv1", "kv2"], ["kv2"], **spec)
    assert [(r.status, r.reason) for r in results] == [("ok", "")] * 2
    variants = json.loads((results[0].directory / "client.json").read_text())["options"]["variant"]
    assert len(variants) == 2
    for variant in variants:
        words = dict(word.split("=", 1) for word in variant.split(","))
        assert words["clock"] == "127.0.0.1:4711", "kv1 is another host than the load's"
        assert words["node"].isdigit(), "kv2 is not"
    for result in results:
        assert result.facts["schedule"] == "interleaved"
        assert result.facts["verified"]["copies"] == 2
        assert result.metrics["mem_used_bytes"] == 1_400_000
    lab.assert_nothing_left()


def test_a_group_on_another_host_than_its_load_asks_a_helper_for_cpu_clocks(lab: Lab) -> None:
    tasks = [
        TrialKey(1, 1, n, "pf", "persistent", v, group=1)
        for n, v in enumerate(("changed", "base"), 1)
    ]
    results = run_unit(lab, tasks, ["kv1"], ["load1"])
    assert [(r.status, r.reason) for r in results] == [("ok", "")] * 2
    variants = json.loads((results[0].directory / "client.json").read_text())["options"]["variant"]
    assert len(variants) == 2
    for variant in variants:
        assert dict(word.split("=", 1) for word in variant.split(","))["clock"] == "127.0.0.1:4711"
    for result in results:
        assert "server_cpu_us_per_op" in result.metrics
        assert result.facts["cpus"] == {"engine": "", "client": ""}, "hosts apart are not pinned"
    assert "clock=" not in (results[0].directory / "reproduce.sh").read_text()
    lab.assert_nothing_left()
