"""The same spec over SSH, on an sshd of our own: deploy, run, fetch, and leave nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))  # importlib mode

from sshd import raised_sshd

from tests.e2e.conftest import BUILD_TIMEOUT_S, WORKLOADS, RealLab

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
