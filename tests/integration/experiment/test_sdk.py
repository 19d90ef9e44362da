"""The sdk workload with the real SDK and a real engine, as whole trials on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.placement import (
    USER,
    Credentials,
    Deployed,
    Placement,
    TrialResult,
)
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.hosts import open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.loader import load_spec
from tests.support.built import built
from tests.support.fakes import Lab, processes_of, spec_text

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 2000
SDK = {
    "type": "sdk", "items": ITEMS, "processes": 2, "set_share": 50, "value_size": [100, 600],
    "operations": 3000, "settle": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def artifact() -> Path:
    """The engine that was built, as `scripts/test` left it."""
    return built("kv_engine")


class OneHost:
    """Trials on this machine. `at_phase` is called as each phase begins."""

    def __init__(self, directory: Path, artifact: Path) -> None:
        self.directory, self.artifact = directory, artifact
        self.work = directory / "work"

    def run(
        self,
        bucket: str = "persistent",
        at_phase: Callable[[str, Path], None] = lambda phase, trial: None,
        **workload: Any,
    ) -> TrialResult:
        (self.directory / "spec.yaml").write_text(
            spec_text(self.work, workloads={"app": {**SDK, **workload}}, buckets=[bucket])
        )
        trials = self.directory / "trials"
        with open_host(HostSpec(work_dir=str(self.work)), "local", name="here", run_id="r") as host:
            run_dir = f"{host.work_dir}/runs/r"
            files = Credentials().install(host.transport, f"{run_dir}/secret")
            runner = TrialRunner(
                TrialSetup(
                    spec=load_spec(self.directory / "spec.yaml", [], None),
                    run_id="r",
                    seed=7,
                    engine_nodes=[
                        Placement(host.transport, run_dir, files, "127.0.0.1", "127.0.0.1", None)
                    ],
                    load_clients=[
                        Placement(host.transport, run_dir, files, "127.0.0.1", "127.0.0.1", None)
                    ],
                    shield=contextlib.nullcontext,
                    on_phase=lambda phase: at_phase(phase, Path(run_dir)),
                    hurry=lambda: False,
                ),
                trials_dir=trials,
                host_changes=list,
            )
            paths = {"here": str(self.artifact)}
            deployed = {"base": Deployed("real", paths, {}, paths)}
            (result,) = runner.run([TrialKey(1, 1, 1, "app", bucket, "base")], deployed)
        Lab(self.directory).assert_nothing_left()
        return result


@pytest.fixture
def here(tmp_path: Path, artifact: Path) -> OneHost:
    return OneHost(tmp_path, artifact)


def collection_of(run_dir: Path) -> Any:
    """Another client of the engine under way."""
    from couchbase.auth import PasswordAuthenticator
    from couchbase.cluster import Cluster
    from couchbase.options import ClusterOptions

    (port,) = run_dir.glob("*/engine.port")
    password = (run_dir / "secret" / "password").read_text()
    cluster = Cluster(
        f"couchbase://127.0.0.1:{port.read_text().strip()}",
        ClusterOptions(PasswordAuthenticator(USER, password)),
    )
    cluster.wait_until_ready(timedelta(seconds=20))
    return cluster.bucket("default").default_collection()


@pytest.mark.long
def test_what_was_written_is_there_after_the_load_and_after_a_restart(here: OneHost) -> None:
    result = here.run(restart=True)
    assert (result.status, result.reason) == ("ok", "")
    metrics = result.metrics
    assert metrics["ops_per_s"] > 0
    for kind in ("get", "set"):
        assert 0 < metrics[f"latency_{kind}_p50_us"] <= metrics[f"latency_{kind}_p99_us"]
    assert (metrics["errors"], metrics["verified_items"]) == (0, ITEMS)
    assert metrics["client_cpu_us_per_op"] > 0
    assert metrics["mem_used_bytes"] > ITEMS * 100
    facts = result.facts
    assert facts["contents"] == {"load": ITEMS, "restart": ITEMS}
    assert set(facts["sdk"]) == {"python", "couchbase"}  # type: ignore[call-overload]
    timed = facts["latency_ops"]
    assert isinstance(timed, dict)
    assert timed["get"] + timed["set"] == 3000
    kept = {path.name for path in result.directory.iterdir()}
    assert {"client-1.json", "client-2.json", "verify-load-1.json", "verify-restart-2.json"} <= kept
    before = json.loads((result.directory / "engine-stat-before-restart.json").read_text())[""]
    after = json.loads((result.directory / "engine-stat.json").read_text())[""]
    assert before["pid"] != after["pid"], "it was another process"
    assert int(after["cmd_set"]) == 0, "which wrote nothing"
    assert int(after["curr_items"]) == ITEMS
    secret = "secret/password"
    script = (result.directory / "reproduce.sh").read_text()
    assert secret in script
    assert "$PORT_engine" in script


def test_an_ephemeral_bucket_with_durable_writes_for_a_time(here: OneHost) -> None:
    result = here.run(
        "ephemeral", durability="majority", operations=None, duration="2.2s", ramp="1s"
    )
    assert (result.status, result.reason) == ("ok", "")
    assert result.metrics["ops_per_s"] > 0
    assert result.facts["contents"] == {"load": ITEMS}
    assert result.facts["steady_seconds"] == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    ["changed", *(pytest.param(how, marks=pytest.mark.long) for how in ("removed", "binary"))],
)
def test_a_document_that_another_client_spoilt_fails_the_trial(here: OneHost, how: str) -> None:
    def spoil(phase: str, run_dir: Path) -> None:
        if phase != "verify after load":
            return
        from couchbase.options import UpsertOptions
        from couchbase.transcoder import RawBinaryTranscoder

        collection = collection_of(run_dir)
        key = f"sdk-{ITEMS // 2 + 3:012d}"
        if how == "changed":
            document = collection.get(key).value
            body = document["body"]
            collection.upsert(
                key, {**document, "body": body[:-1] + ("1" if body[-1] == "0" else "0")}
            )
        elif how == "removed":
            collection.remove(key)
        else:
            collection.upsert(key, b"\x00\xff", UpsertOptions(transcoder=RawBinaryTranscoder()))

    result = here.run(at_phase=spoil)
    assert result.status == "failed"
    assert f"after the load, 1 of {ITEMS} documents are not as last written" in result.reason
    says = {
        "changed": "with different content",
        "removed": "it is missing",
        "binary": "cannot be read",
    }
    assert says[how] in result.reason


@pytest.mark.long
def test_an_engine_that_dies_under_the_load_is_the_reason(here: OneHost) -> None:
    def kill(phase: str, run_dir: Path) -> None:
        if phase == "access":
            pids = [line.split(" ", 1)[0] for line in processes_of(here.work)]
            (engine,) = [p for p in pids if Path(f"/proc/{p}/exe").readlink().name == "kv_engine"]
            os.kill(int(engine), signal.SIGKILL)

    result = here.run(at_phase=kill)
    assert result.status == "failed"
    assert "the engine on here died" in result.reason
