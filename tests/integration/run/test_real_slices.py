"""The real programs side by side: their slices become the metrics that a run by itself gives."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfrunner.measure.microbench import parse_microbench
from perfrunner.measure.slices import SlicesReport, parse_slices

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
NAMES = ("CheckpointBench/GetCursorsToDrop/10", "CheckpointBench/ExtractClosedUnrefCheckpoints/100")


@pytest.fixture(scope="module")
def bin_dir() -> Path:
    """A build of the defaults with the system's allocator (scripts/test makes it)."""
    found = Path(os.environ.get("KV_BIN_DIR", ROOT / "build" / "artifact" / "bin"))
    if not (found / "conductor").is_file():
        pytest.fail(f"no conductor in {found}: set KV_BIN_DIR, or run scripts/test")
    return found


def conducted(bin_dir: Path, tmp_path: Path, program: list[str], **plan: Any) -> SlicesReport:
    argv = [str(bin_dir / program[0]), *program[1:], "--slices"]
    arms = [{"name": name, "argv": argv, "env": {"TMPDIR": str(tmp_path)}} for name in "ab"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"arms": arms, "min_seconds": 0.05, "timeout_s": 60, **plan}))
    done = subprocess.run(
        [bin_dir / "conductor", file], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return parse_slices(done.stdout, "conductor")


def test_a_micro_benchmark_has_the_names_that_it_has_alone(bin_dir: Path, tmp_path: Path) -> None:
    chosen = f"({'|'.join(NAMES)})(/iterations.*)?$"
    sliced = conducted(bin_dir, tmp_path, ["checkpoint_bench"], filter=chosen).reports("a")
    alone = subprocess.run(
        [
            bin_dir / "checkpoint_bench",
            "--benchmark_format=json",
            f"--benchmark_filter={chosen}",
            "--benchmark_min_time=0.01",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    report = parse_microbench(alone.stdout, "bench.json")
    for arm in ("a", "b"):
        assert sliced[arm].metrics((), ()).keys() == report.metrics((), ()).keys()
        assert set(sliced[arm].rows) == set(NAMES)
        for name, row in report.rows.items():
            assert sliced[arm].rows[name].counters.keys() == row.counters.keys()
        said = {k: v for k, v in report.context.items() if k.startswith(("build.", "allocator."))}
        assert dict(sliced[arm].context) == said


def test_a_frozen_latency_arm_does_all_its_operations(bin_dir: Path, tmp_path: Path) -> None:
    program = ["front_end_latency", "--items=2000", "--dcp=notify", "--bucket-type=ephemeral"]
    report = conducted(bin_dir, tmp_path, program, slice_ms=0.2, freeze=True)
    assert [benchmark.name for benchmark in report.benchmarks] == [
        "add",
        "get",
        "replace",
        "delete",
    ]
    for benchmark in report.benchmarks:
        for arm in benchmark.arms:
            assert arm.iterations.sum() == 2000
            assert (arm.counters["p50_us"] > 0).all()
    for arm in report.arms:
        assert arm.report is not None
        assert arm.report["phases"]["delete"]["n"] == 2000
        assert arm.context["build.dcp_ready"] == arm.report["build"]["dcp_ready"]
