"""The same spec over SSH, on an sshd of our own: deploy, run, fetch, and leave nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))  # importlib mode

from sshd import raised_sshd

from tests.e2e.conftest import BUILD_TIMEOUT_S, CACHE, WORKLOADS, RealLab

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]


def test_a_tiny_experiment_over_ssh(real: RealLab, tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd") as server:
        host = server.host_spec(work_dir=real.work).model_dump(mode="json", exclude_none=True)
        real.write_spec(
            cluster={
                "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
                "engine_nodes": ["kv1"], "load_clients": ["kv1"],
            },
            workloads={"pillowfight": WORKLOADS["pillowfight"]},
        )  # fmt: skip
        done, report = real.json()
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 2, "invalid": 0, "failed": 0}
    data = real.stored()
    assert data.experiment.facts["hosts"]["kv1"]["kernel"]
    for trial in data.trials:
        kept = {path.name for path in (real.out / trial.raw_dir).iterdir()}
        assert {"engine.log", "client.json", "samples.jsonl", "reproduce.sh"} <= kept
        assert "ssh -p" in (real.out / trial.raw_dir / "reproduce.sh").read_text()
    real.assert_nothing_left()
    assert not list((real.work / "runs").iterdir())


def test_built_on_the_engine_node_and_linked_anew_there(real: RealLab, tmp_path: Path) -> None:
    """The build host's cache is the one that outlives the tests; the controller's is empty, so all is fetched."""
    CACHE.mkdir(parents=True, exist_ok=True)
    real.work.mkdir(mode=0o700)
    (real.work / "build").symlink_to(CACHE)
    with raised_sshd(tmp_path / "sshd") as server:
        host = server.host_spec(work_dir=real.work).model_dump(mode="json", exclude_none=True)
        real.write_spec(
            cluster={
                "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
                "engine_nodes": ["kv1"], "load_clients": ["kv1"], "build_host": "kv1",
            },
            workloads={"pillowfight": WORKLOADS["pillowfight"]},
            relink="shuffle",
        )  # fmt: skip
        done, report = real.json("--cache", str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 2, "invalid": 0, "failed": 0}
    data = real.stored()
    assert {build.provenance["build_host"] for build in data.builds} == {"kv1"}
    assert len({trial.facts["relinked"] for trial in data.trials} - {None}) == 2
    (fetched,) = (tmp_path / "cache" / "artifacts").iterdir()
    assert fetched.name == data.builds[0].build_id
    real.assert_nothing_left()
