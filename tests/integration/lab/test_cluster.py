"""Real engines as one cluster, on hosts of the lab: routing, replication, and every copy compared."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from perfrunner.domain import TrialKey
from perfrunner.errors import HostError
from perfrunner.experiment.preflight.hosts import RunHosts, open_hosts
from perfrunner.experiment.preflight.requirements import require_sdk_there
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.spec.loader import load_spec
from tools.lab import Lab, raised_lab, why_not

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 4000
WORKLOADS = {
    "pf": {
        "type": "pillowfight", "items": ITEMS, "duration": "3s", "ramp": "1s", "settle": 0, "threads": 2,
        "connections": 2, "batch": 50,
    },
    "app": {"type": "append", "items": ITEMS, "rounds": 1, "settle": 0, "threads": 2},
    "sdk": {"type": "sdk", "items": ITEMS, "processes": 2, "operations": 4000, "set_share": 60, "settle": 0},
}  # fmt: skip
STEPS = {  # of clusters that can change
    change: {
        "type": "step", "change": change, "items": ITEMS, "threads": 2, "batch": 20, "set_share": 60,
        "ramp": "500ms", "before": "1s", "after": "1s",
    }
    for change in ("failover", "rebalance")
}  # fmt: skip


OnPhase = Callable[[str], None]


def unheard(phase: str) -> None:
    pass


class Silent:
    def on_event(self, event: object) -> None:
        pass


class Cluster:
    """An experiment's hosts and runner, on the lab."""

    def __init__(
        self,
        directory: Path,
        artifact: Path,
        document: dict[str, object],
        workloads: Mapping[str, object] = WORKLOADS,
    ) -> None:
        self.directory, self.artifact = directory, artifact
        spec = {
            "name": "cluster", "cluster": document, "baseline": "base",
            "variants": {name: {"allocator": {"name": "system"}} for name in ("base", "same")},
            "engine": {"vbuckets": 64, "quota_mb": 128, "threads": 1, "shards": 1, "verify": "sdk"},
            "workloads": workloads, "blocks": 1, "seed": 7, "client": {"python": sys.executable},
        }  # fmt: skip
        directory.mkdir(exist_ok=True)
        path = directory / "spec.yaml"
        path.write_text(json.dumps(spec))
        self.spec = load_spec(path, [], None)

    def run(
        self, workload: str, bucket: str = "persistent", on_phase: OnPhase = unheard
    ) -> TrialResult:
        (result,) = self.run_unit([TrialKey(1, 1, 1, workload, bucket, "base")], on_phase)
        return result

    def run_unit(self, tasks: list[TrialKey], on_phase: OnPhase = unheard) -> list[TrialResult]:
        with open_hosts(self.spec.cluster, "r", Silent()) as hosts:
            deployed = self.deploy(hosts)
            runner = self.runner(hosts, on_phase)
            return runner.run(tasks, {task.variant: deployed for task in tasks})

    def deploy(self, hosts: RunHosts) -> Deployed:
        paths = {name: host.deploy(self.artifact, "real") for name, host in hosts.hosts.items()}
        return Deployed("real", paths, {}, paths)

    def runner(self, hosts: RunHosts, on_phase: OnPhase) -> TrialRunner:
        return TrialRunner(
            TrialSetup(
                spec=self.spec,
                run_id="r",
                seed=7,
                engine_nodes=hosts.engine_nodes,
                load_clients=hosts.load_clients,
                shield=contextlib.nullcontext,
                on_phase=on_phase,
                hurry=lambda: False,
            ),
            trials_dir=self.directory / "trials",
            host_changes=list,
        )


@pytest.mark.parametrize(
    ("workload", "bucket"),
    [
        ("pf", "persistent"),
        pytest.param("app", "ephemeral", marks=pytest.mark.long),
        pytest.param("sdk", "persistent", marks=pytest.mark.long),
    ],
)
def test_two_nodes_with_a_replica(
    lab: Lab, tmp_path: Path, artifact: Path, workload: str, bucket: str
) -> None:
    document = lab.cluster_document(["lab1", "lab2"], ["lab3"], replicas=1)
    result = Cluster(tmp_path, artifact, document).run(workload, bucket)
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["verified"] == {"documents": ITEMS, "copies": 2, "by_sdk": 64}
    stats = [
        json.loads((result.directory / f"engine-lab{n}-stat.json").read_text())[""] for n in (1, 2)
    ]
    sets = [int(single["cmd_set"]) for single in stats]
    assert min(sets) > 0.3 * max(sets), "both were driven"
    if workload == "sdk":
        for path in result.directory.glob("verify-load-*.json"):
            assert json.loads(path.read_text())["verify"]["sampled"] >= 40, (
                "of each copy, by the SDK"
            )
    lab.assert_idle()


@pytest.mark.long
@pytest.mark.parametrize("change", STEPS)
def test_a_cluster_that_changes_under_load(
    lab: Lab, tmp_path: Path, artifact: Path, change: str
) -> None:
    """Clients on two hosts; the figures are held by tests on loopback (tests/integration/experiment/test_steps.py)."""
    nodes = ["lab1", "lab2", "lab3"]
    document = lab.cluster_document(nodes, ["lab1", "lab2"], replicas=1)
    result = Cluster(tmp_path, artifact, document, STEPS).run(change)
    assert (result.status, result.reason) == ("ok", "")
    fact = result.facts["step"]
    assert isinstance(fact, dict)
    assert fact["verified_documents"] == ITEMS
    assert fact["maps"] >= 1
    assert min(result.metrics[f"ops_per_s_{when}"] for when in ("before", "after")) > 0
    verified = result.facts["verified"]
    assert isinstance(verified, dict)
    assert (verified["documents"], verified["by_sdk"]) == (ITEMS, 64)
    lab.assert_idle()


def cpu_seconds(samples: Path) -> float:
    """Of the last sample: since the engine began."""
    last = json.loads(samples.read_text().splitlines()[-1])
    return float(last["cpu_user_s"]) + float(last["cpu_sys_s"])


@pytest.mark.long
@pytest.mark.parametrize("workload", ["pf", "app"])
def test_two_clusters_side_by_side(lab: Lab, tmp_path: Path, artifact: Path, workload: str) -> None:
    document = lab.cluster_document(["lab1", "lab2"], ["lab3"], replicas=1)
    variants = ["same", "base"]
    tasks = [
        TrialKey(1, 1, n, workload, "persistent", variant, group=1)
        for n, variant in enumerate(variants, 1)
    ]
    for result in Cluster(tmp_path, artifact, document).run_unit(tasks):
        assert (result.status, result.reason) == ("ok", "")
        assert result.facts["schedule"] == "interleaved"
        assert result.facts["verified"] == {"documents": ITEMS, "copies": 2, "by_sdk": 64}
        if workload == "pf":  # append's samples hold the CPU time of its load phase as well
            slices = json.loads((result.directory / "slices.json").read_text())
            in_turns = sum(slices["cpu_ns"]) / 1e9
            used = sum(cpu_seconds(result.directory / f"samples-{n}.jsonl") for n in (1, 2))
            assert 0.5 * used < in_turns <= used, "one node alone has about half of it"
    lab.assert_idle()


@pytest.mark.long
def test_three_nodes_two_replicas_two_clients(lab: Lab, tmp_path: Path, artifact: Path) -> None:
    document = lab.cluster_document(["lab1", "lab2", "lab3"], ["lab2", "lab3"], replicas=2)
    result = Cluster(tmp_path, artifact, document).run("pf")
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["verified"] == {"documents": ITEMS, "copies": 3, "by_sdk": 64}


@pytest.mark.long
def test_four_nodes_three_replicas(tmp_path: Path, artifact: Path) -> None:
    """As many copies as there may be, each on a node of its own."""
    if reason := why_not():
        pytest.skip(reason)
    with raised_lab(4, tmp_path / "lab") as lab:
        nodes = ["lab1", "lab2", "lab3", "lab4"]
        document = lab.cluster_document(nodes, ["lab1"], replicas=3)
        for workload in ("pf", "sdk"):
            result = Cluster(tmp_path / workload, artifact, document).run(workload)
            assert (result.status, result.reason) == ("ok", "")
            assert result.facts["verified"] == {"documents": ITEMS, "copies": 4, "by_sdk": 64}
        lab.assert_idle()


@pytest.mark.long
def test_the_sdk_on_two_clients_finds_all_that_it_wrote(
    lab: Lab, tmp_path: Path, artifact: Path
) -> None:
    document = lab.cluster_document(["lab1", "lab2"], ["lab2", "lab3"])
    result = Cluster(tmp_path, artifact, document).run("sdk")
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["contents"] == {"load": ITEMS}
    shares = [json.loads(path.read_text())["access"]["ops"]
              for path in sorted(result.directory.glob("client-*.json"))]  # fmt: skip
    assert shares == [1000] * 4
    lab.assert_idle()


def test_a_client_without_the_sdk_is_named_before_anything_is_built(
    lab: Lab, tmp_path: Path, artifact: Path
) -> None:
    cluster = Cluster(tmp_path, artifact, lab.cluster_document(["lab1"], ["lab2", "lab3"]))
    missing = cluster.spec.client.model_copy(update={"python": "/opt/none/bin/python"})
    with open_hosts(cluster.spec.cluster, "r", Silent()) as hosts:
        require_sdk_there(cluster.spec, hosts.hosts)
        with pytest.raises(HostError, match=r"^lab2: /opt/none/bin/python cannot import couchbase"):
            require_sdk_there(cluster.spec.model_copy(update={"client": missing}), hosts.hosts)


@pytest.mark.long
def test_a_client_of_two_that_dies_fails_the_trial_and_ends_the_other(
    lab: Lab, tmp_path: Path, artifact: Path
) -> None:
    document = lab.cluster_document(["lab1"], ["lab2", "lab3"])
    cluster = Cluster(tmp_path, artifact, document)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(cluster.run, "pf", "ephemeral")
        killed = False
        while not killed:  # one that has just ended by itself is no victim
            assert not running.done(), running.result()
            killed = lab.run("lab3", "sh", "-c", "pkill -KILL -x pillowfight && echo y || :") != ""
        result = running.result(timeout=60)
    assert result.status == "failed"
    assert "lab3" in result.reason
    assert "SIGKILL" in result.reason
    lab.assert_idle()


@pytest.fixture
def clocks(lab: Lab) -> Iterator[Callable[[str, float], None]]:
    """clocks(host, seconds) sets a host's clock so much ahead; all are right again after the test."""
    done: set[str] = set()

    def set_clock(host: str, ahead_s: float) -> None:
        done.add(host)
        lab.set_clock(host, ahead_s)

    yield set_clock
    for host in done:
        lab.power_off(host)  # takes what its programs load with it
        lab.boot(host)


@pytest.mark.long
def test_clocks_that_are_set_in_mid_trial_change_no_figure(
    lab: Lab, tmp_path: Path, artifact: Path, clocks: Callable[[str, float], None]
) -> None:
    hosts = ["lab1", "lab2", "lab3"]
    for host in hosts:
        clocks(host, 0)
    ahead = dict(zip(hosts, (-3600, 7200, 1800), strict=True))
    steps: list[threading.Timer] = []

    def on_phase(phase: str) -> None:
        if phase == "access":
            steps.extend(threading.Timer(1.5, clocks, single) for single in ahead.items())
            for step in steps:
                step.start()

    document = lab.cluster_document(["lab1", "lab2"], ["lab3"], replicas=1)
    result = Cluster(tmp_path, artifact, document).run("pf", on_phase=on_phase)
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["verified"] == {"documents": ITEMS, "copies": 2, "by_sdk": 64}
    for step in steps:
        step.join()
    now = {host: float(lab.run(host, "date", "+%s")) - time.time() for host in hosts}
    assert now == pytest.approx(ahead, abs=60), "they were set"
    for node in (1, 2):
        lines = (result.directory / f"samples-{node}.jsonl").read_text().splitlines()
        times = [json.loads(line)["t"] for line in lines]
        between = [b - a for a, b in itertools.pairwise(times)]
        assert len(between) > 3
        assert min(between) > 0
        assert max(between) < 600
    access = json.loads((result.directory / "client.json").read_text())["access"]
    assert 2.9 < access["seconds"] < 600
    lab.assert_idle()


@pytest.mark.long
def test_nodes_without_replicas_share_the_documents(
    lab: Lab, tmp_path: Path, artifact: Path
) -> None:
    document = lab.cluster_document(["lab1", "lab2"], ["lab3"])
    result = Cluster(tmp_path, artifact, document).run("app", "ephemeral")
    assert (result.status, result.reason) == ("ok", "")
    assert result.facts["verified"] == {"documents": ITEMS, "copies": 1, "by_sdk": 64}
