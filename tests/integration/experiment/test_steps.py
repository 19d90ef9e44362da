"""Clusters of real engines on loopback that change under load, as whole trials."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial import bench as serverbench
from perfrunner.experiment.trial.placement import Credentials, Deployed, Placement, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.loader import load_spec
from tests.support.built import built
from tests.support.fakes import Lab

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 2000
VBUCKETS = 32
STEP = {
    "type": "step", "change": "failover", "items": ITEMS, "threads": 2, "batch": 20, "set_share": 60,
    "value_size": [100, 300], "ramp": "500ms", "before": "1s", "after": "1s",
}  # fmt: skip
SDK = {
    "type": "sdk", "items": 600, "processes": 2, "operations": 600, "settle": 0, "failover": True,
    "set_share": 50,
}  # fmt: skip


@pytest.fixture(scope="module")
def artifact() -> Path:
    """The engine that was built, as `scripts/test` left it."""
    return built("kv_engine", "consistency_checker")


def vbucket_of(key: bytes) -> int:
    return ((zlib.crc32(key) >> 16) & 0x7FFF) % VBUCKETS


class Loopback:
    """Trials on several engine nodes and load clients, all of them this machine."""

    def __init__(self, directory: Path, artifact: Path) -> None:
        self.lab, self.artifact = Lab(directory), artifact

    def run(
        self,
        workload: dict[str, Any],
        *,
        nodes: int,
        replicas: int,
        clients: int = 1,
        bucket: str = "persistent",
        at_phase: Callable[[str, TrialRunner], None] = lambda phase, runner: None,
    ) -> TrialResult:
        names = [f"kv{n + 1}" for n in range(nodes)]
        loads = [f"load{n + 1}" for n in range(clients)]
        cluster = {
            "name": "loopback", "transport": "ssh", "hosts": {name: {} for name in (*names, *loads)},
            "engine_nodes": names, "load_clients": loads, "replicas": replicas,
        }  # fmt: skip
        self.lab.write_spec(
            workloads={"w": workload},
            cluster=cluster,
            buckets=[bucket],
            engine={"vbuckets": VBUCKETS, "quota_mb": 128, "shards": 1, "threads": 1,
                    **({"verify": "replicas"} if replicas else {})},
            client={"python": sys.executable},
        )  # fmt: skip
        credentials = Credentials()
        with contextlib.ExitStack() as stack:

            def placement(name: str) -> Placement:
                spec = HostSpec(work_dir=str(self.lab.work / name))
                host: Host = stack.enter_context(open_host(spec, "local", name=name, run_id="r"))
                run_dir = f"{host.work_dir}/runs/r"
                files = credentials.install(host.transport, f"{run_dir}/secret")
                return Placement(host.transport, run_dir, files, "127.0.0.1", "127.0.0.1", None)

            placements = {name: placement(name) for name in (*names, *loads)}
            runner = TrialRunner(
                TrialSetup(
                    spec=load_spec(self.lab.spec_path, [], None),
                    run_id="r",
                    seed=7,
                    engine_nodes=[placements[name] for name in names],
                    load_clients=[placements[name] for name in loads],
                    shield=contextlib.nullcontext,
                    on_phase=lambda phase: at_phase(phase, runner),
                    hurry=lambda: False,
                ),
                trials_dir=self.lab.out / "trials",
                host_changes=list,
            )
            paths = dict.fromkeys(placements, str(self.artifact))
            deployed = {"base": Deployed("real", paths, {}, paths)}
            (result,) = runner.run([TrialKey(1, 1, 1, "w", bucket, "base")], deployed)
        self.lab.assert_nothing_left()
        return result


@pytest.fixture
def loopback(tmp_path: Path, artifact: Path) -> Loopback:
    return Loopback(tmp_path, artifact)


def check_figures(result: TrialResult) -> dict[str, Any]:
    """Those that every step has; its fact."""
    assert (result.status, result.reason) == ("ok", "")
    metrics = result.metrics
    for when in ("before", "after"):
        assert metrics[f"ops_per_s_{when}"] > 0, when
    assert metrics["step_s"] > 0
    fact = result.facts["step"]
    assert isinstance(fact, dict)
    assert fact["verified_documents"] == ITEMS
    assert fact["maps"] >= 1
    assert 1.4 < fact["began_s"] < fact["ended_s"], "after ramp and before"
    checked = subprocess.run(
        ["bash", "-n", str(result.directory / "reproduce.sh")], check=False, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    return fact


@pytest.mark.parametrize(
    ("nodes", "replicas", "bucket"),
    [(2, 1, "persistent"), pytest.param(3, 2, "ephemeral", marks=pytest.mark.long)],
)
def test_a_failover_under_load(loopback: Loopback, nodes: int, replicas: int, bucket: str) -> None:
    result = loopback.run(STEP, nodes=nodes, replicas=replicas, bucket=bucket)
    fact = check_figures(result)
    assert (fact["kind"], fact["killed"]) == ("failover", f"kv{nodes}")
    assert fact["promoted_vbuckets"] in (VBUCKETS // nodes, VBUCKETS // nodes + 1)
    # Replication is not waited for: what was on its way is lost. How much that is follows from the machine's load; not
    # all that the killed node had.
    assert result.metrics["lost_writes"] < ITEMS / nodes
    verified = result.facts["verified"]
    assert isinstance(verified, dict)
    assert verified["copies"] == replicas, "one copy less"
    assert verified["documents"] == ITEMS, "what is lost has an older version"
    killed = (result.directory / f"engine-kv{nodes}.log").read_text()
    assert "stopped" not in killed.splitlines()[-1], "it had no time to say so"
    script = (result.directory / "reproduce.sh").read_text()
    assert "kill -KILL" in script
    assert "set-state" in script


@pytest.mark.long
def test_a_failover_takes_as_long_as_its_detection_and_nothing_is_served_during_that(
    loopback: Loopback,
) -> None:
    result = loopback.run({**STEP, "detection": "1500ms"}, nodes=2, replicas=1, clients=2)
    check_figures(result)
    assert result.metrics["step_s"] > 1.5
    assert result.metrics["service_gap_ms"] > 1300
    assert result.metrics["ops_per_s_during"] < 0.5 * result.metrics["ops_per_s_before"]
    assert (result.directory / "client-2.json").is_file()


@pytest.mark.long
def test_lost_writes_are_found(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that gets nothing of the load: all that was written on the killed node is lost."""
    fail_over = serverbench.Bench.fail_over
    on_killed = sum(vbucket_of(b"%020d" % key) % 2 for key in range(ITEMS))

    def without_replication(bench: serverbench.Bench, detection: float = 0.0) -> Any:
        # The node that stays knows of no source any more, long before the other one is killed.
        nodes = bench.nodes
        nodes.publish([[row[0]] for row in nodes.rows], [0])
        killed = bench.engines[1]
        enough = killed.counters()["cmd_set"] + on_killed  # random keys: three of five are written
        while killed.counters()["cmd_set"] < enough:
            bench.pause(0.1)
        return fail_over(bench, detection)

    monkeypatch.setattr(serverbench.Bench, "fail_over", without_replication)
    result = loopback.run(STEP, nodes=2, replicas=1)
    check_figures(result)
    report = json.loads((result.directory / "client.json").read_text())
    assert result.metrics["lost_writes"] == report["access"]["lost"] + report["check"]["lost"]
    assert on_killed / 2 < result.metrics["lost_writes"] <= on_killed
    assert result.metrics["misses"] == 0, "older versions are there"


@pytest.mark.long
@pytest.mark.parametrize(
    ("nodes", "replicas", "bucket"),
    [(2, 0, "persistent"), (2, 1, "ephemeral"), (3, 1, "persistent")],
)
def test_a_rebalance_under_load_loses_nothing(
    loopback: Loopback, nodes: int, replicas: int, bucket: str
) -> None:
    rebalance = {**STEP, "change": "rebalance", "at_once": 4}
    result = loopback.run(rebalance, nodes=nodes, replicas=replicas, bucket=bucket)
    fact = check_figures(result)
    count = round((VBUCKETS // nodes + (VBUCKETS % nodes > 0)) / 2)
    assert fact == {
        **fact,
        "kind": "rebalance",
        "from": "kv1",
        "to": "kv2",
        "moved_vbuckets": count,
    }
    assert result.metrics["lost_writes"] == 0
    assert result.metrics["misses"] == 0
    assert result.metrics["nmvb_retries"] > 0
    assert fact["broken_off"] == 0
    if replicas:
        assert result.facts["verified"] == {"documents": ITEMS, "copies": 1 + replicas}
    else:
        stat = json.loads((result.directory / "engine-kv2-stat.json").read_text())[""]
        assert ITEMS * 0.65 < int(stat["curr_items"]) < ITEMS * 0.85, "three quarters of all"
    messages = json.loads((result.directory / "engine-kv1-cluster.json").read_text())
    active = [row[0] for row in messages["vBucketServerMap"]["vBucketMap"]]
    assert active.count(1) - active.count(0) == 2 * count - (VBUCKETS % nodes == 1)


@pytest.mark.long
def test_what_an_application_wrote_is_there_after_a_failover(loopback: Loopback) -> None:
    result = loopback.run(SDK, nodes=2, replicas=1)
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["contents"] == {"load": 600, "failover": 600}
    assert result.facts["failover"] == {
        "kind": "failover", "killed": "kv2", "promoted_vbuckets": VBUCKETS // 2,
    }  # fmt: skip
    assert result.metrics["verified_items"] == 600


@pytest.mark.long
def test_a_load_that_dies_fails_the_trial_at_once(loopback: Loopback) -> None:
    def starve(phase: str, runner: TrialRunner) -> None:
        if phase.startswith("access"):  # no document is there any more
            monkey.setattr(
                "perfrunner.workloads.step.consistency_checker_arguments",
                lambda *_: ["--num-items=0"],
            )

    with pytest.MonkeyPatch.context() as monkey:
        result = loopback.run(STEP, nodes=2, replicas=1, at_phase=starve)
    assert result.status == "failed"
    assert "consistency_checker on load1 failed (exit 2)" in result.reason
    assert "--num-items" in result.reason
