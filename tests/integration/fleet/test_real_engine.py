"""The built engine and its load tools, measured by a worker from the queue; only the build step is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.built import built
from tests.support.fleetlab import PATIENCE_S, FleetLab

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]

SYSTEM = {"allocator": {"name": "system"}}
WORKLOAD = {
    "type": "pillowfight", "items": 2000, "duration": "2s", "ramp": "1s", "settle": "0.2s", "threads": 1,
}  # fmt: skip


@pytest.fixture
def artifact() -> Path:
    """The engine that was built, as `scripts/test` left it."""
    return built("kv_engine")


def test_a_real_experiment_goes_through_the_queue(
    lab: FleetLab, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BUILD", json.dumps({"artifact": str(artifact)}))
    lab.write(
        "a",
        workloads={"pf": WORKLOAD},
        variants={"glibc": SYSTEM, "one-arena": {**SYSTEM, "env": {"MALLOC_ARENA_MAX": "1"}}},
        baseline="glibc",
        primary=["ops_per_s"],
        engine={"vbuckets": 64, "quota_mb": 256, "threads": 1},
        limits={"client_busy": 1.0},  # a busy machine may take a whole CPU from a load client
        blocks=1,
    )
    job = lab.submit("a")
    assert lab.drive("east", "--drain").wait(PATIENCE_S) == 0
    status = lab.wait_until(job, "done")
    (data,) = lab.results("a")
    assert status.ending is not None
    assert status.ending.experiment == data.experiment.id
    assert data.experiment.facts["job"] == job
    matches = {(t.variant, t.status): t.metrics for t in data.trials}
    assert set(matches) == {("glibc", "ok"), ("one-arena", "ok")}
    for metrics in matches.values():
        assert metrics["ops_per_s"] > 1000
        assert 0 < metrics["mem_used_bytes"] < metrics["rss_bytes"]
    assert (lab.fleet().groups["a"].out / data.experiment.id / "report.html").exists()
