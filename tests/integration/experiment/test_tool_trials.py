"""Trials of a program that needs no engine: fake programs that really run, in whole experiments."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from perfrunner.report import build_report, render
from perfrunner.results import TrialRecord
from tests.support.fakes import PILLOWFIGHT, Lab, variant
from tests.support.waiting import until

pytestmark = pytest.mark.integration

BENCH = {
    "type": "microbench",
    "program": "checkpoint_bench",
    "counters": ["PeakBytesPerItem"],
    "growth": ["CheckpointBench/GetCursorsToDrop"],
    "schedule": "sequential",
}
BESIDE = {**BENCH, "schedule": "interleaved"}
TEN = "CheckpointBench/GetCursorsToDrop/10"
PRIMARY = [TEN, "CheckpointBench/GetCursorsToDrop/growth"]


def kept(lab: Lab, trial: TrialRecord) -> Path:
    return lab.out / trial.raw_dir


def test_a_tool_is_measured_next_to_a_server_and_starts_no_engine(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BENCH, "pf": PILLOWFIGHT},
        variants={"base": variant(bench_ns=100), "changed": variant(bench_ns=50)},
        buckets=["persistent", "ephemeral"],
        blocks=1,
        primary=PRIMARY,
    )
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    tools = [t for t in data.trials if t.workload == "bench"]
    assert [t.bucket for t in tools] == ["-", "-"]
    assert {t.variant: t.metrics[TEN] for t in tools} == {"base": 1000.0, "changed": 500.0}
    for trial in tools:
        assert trial.status == "ok"
        assert trial.metrics[f"{TEN}/cpu_time"] == trial.metrics[TEN] / 2
        assert trial.metrics[f"{TEN}/PeakBytesPerItem"] == 7.0
        assert trial.metrics["CheckpointBench/GetCursorsToDrop/growth"] == pytest.approx(1.0)
        assert int(trial.facts["context"]["padding"]) == trial.facts["environment_padding"]
        assert {p.name for p in kept(lab, trial).iterdir()} == {
            "bench.json",
            "bench.log",
            "reproduce.sh",
        }
    assert len(data.trials) == 6
    lab.assert_nothing_left()


def test_programs_side_by_side_take_turns_and_each_trial_keeps_its_part(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BESIDE},
        variants={"base": variant(bench_ns=100), "changed": variant(bench_ns=50)},
        blocks=1,
        primary=PRIMARY,
    )
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    trials = {t.variant: t for t in lab.stored().trials}
    assert {v: t.metrics[TEN] for v, t in trials.items()} == pytest.approx(
        {"base": 1000.0, "changed": 500.0}
    )
    for trial in trials.values():
        assert trial.group == 1
        assert trial.facts["schedule"] == "interleaved"
        assert int(trial.facts["context"]["padding"]) == trial.facts["environment_padding"]
        part = json.loads((kept(lab, trial) / "bench.json").read_text())
        assert [b["name"] for b in part["benchmarks"]] == [
            f"CheckpointBench/GetCursorsToDrop/{n}" for n in (1, 10, 100)
        ]
    lab.assert_nothing_left()


@pytest.mark.long
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"bench_crash": 1}, "killed by signal 11"),
        ({"bench_says": "<jemalloc>: Invalid conf pair: metadata_thp:auto"}, "rejects its options"),
        ({"bench_drop": "walk"}, "asked for compare, the engine has walk"),
    ],
)
def test_a_program_that_fails_next_to_others_is_the_one_that_is_named(
    lab: Lab, behaviour: dict[str, object], reason: str
) -> None:
    bad = {**variant(**behaviour), "options": {"cursor_drop": "compare"}}
    lab.write_spec(
        workloads={"bench": BESIDE},
        variants={"base": variant(), "bad": bad},
        blocks=1,
        primary=[TEN],
        limits={"max_discarded": 0},
    )
    code, _ = lab.run()
    assert code == 3
    by_variant = {t.variant: t for t in lab.stored().trials}
    assert by_variant["bad"].status == "failed"
    assert reason in by_variant["bad"].reason
    assert by_variant["base"].status == "discarded"
    lab.assert_nothing_left()


def test_a_conductors_reproduce_script_writes_its_plan_again(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BESIDE},
        variants={"base": variant(bench_ns=3), "other": variant(bench_ns=4)},
        blocks=1,
        primary=[TEN],
    )
    assert lab.run()[0] == 0
    again = lab.directory / "again"
    again.mkdir()
    done = subprocess.run(
        ["bash", str(kept(lab, lab.stored().trials[0]) / "reproduce.sh")],
        env={"PATH": "/usr/bin:/bin", "OUT": str(again), "TMPDIR": "/tmp"},
        check=False,
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (output,) = again.glob("bench*.out")
    assert len(json.loads(output.read_text())["variants"]) == 2


@pytest.mark.long
def test_every_figure_of_a_tool_is_a_row_of_the_report(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(bench_ns=100), "changed": variant(bench_ns=50)},
        blocks=6,
        primary=PRIMARY,
    )
    code, _ = lab.run()
    assert code == 0
    report = build_report(lab.stored())
    rows = {row.metric.id: row for row in report.comparison.rows}
    assert rows[TEN].primary
    assert rows["CheckpointBench/GetCursorsToDrop/growth"].primary
    assert rows[f"{TEN}/PeakBytesPerItem"].metric.unit == "B/item"
    assert rows[TEN].verdict == "better"
    assert "CheckpointBench/GetCursorsToDrop/growth" in render(report, "markdown")


def test_its_reproduce_script_runs_the_program_again(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BENCH}, variants={"base": variant(bench_ns=3)}, blocks=1, primary=[TEN]
    )
    assert lab.run()[0] == 0
    (trial,) = lab.stored().trials
    again = lab.directory / "again"
    again.mkdir()
    subprocess.run(
        ["bash", str(kept(lab, trial) / "reproduce.sh")],
        env={"PATH": "/usr/bin:/bin", "OUT": str(again), "TMPDIR": "/tmp"},
        check=True,
        timeout=300,
        capture_output=True,
    )
    assert (again / "bench.out").read_text() == (kept(lab, trial) / "bench.json").read_text()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"bench_crash": 1}, "checkpoint_bench on here failed (killed by SIGSEGV): running"),
        ({"bench_fail": 1}, "failed (exit 1): running | the bench gave up"),
        (
            {"bench_says": "<jemalloc>: Invalid conf pair: metadata_thp:auto"},
            "rejects its options",
        ),
    ],
)
def test_a_program_that_fails_fails_the_trial_and_its_log_is_kept(
    lab: Lab, behaviour: dict[str, object], reason: str
) -> None:
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(), "bad": variant(**behaviour)},
        blocks=1,
        primary=[TEN],
    )
    code, _ = lab.run()
    assert code == 3
    by_variant = {t.variant: t for t in lab.stored().trials}
    assert by_variant["base"].status == "ok"
    assert by_variant["bad"].status == "failed"
    assert reason in by_variant["bad"].reason
    assert by_variant["bad"].metrics == {}
    assert (kept(lab, by_variant["bad"]) / "bench.log").exists()
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_program_built_otherwise_than_its_variant_fails_the_trial(lab: Lab) -> None:
    walk = {**variant(bench_drop="compare"), "options": {"cursor_drop": "walk"}}
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(), "walk": walk},
        blocks=1,
        primary=[TEN],
    )
    code, _ = lab.run()
    assert code == 3
    (reason,) = {t.reason for t in lab.stored().trials if t.status == "failed"}
    assert "variant walk: options.cursor_drop: asked for walk, the engine has compare" in reason


@pytest.mark.long
def test_a_program_without_end_is_stopped_at_the_trials_time_out(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(), "slow": variant(bench_sleep=600)},
        blocks=1,
        primary=[TEN],
        limits={"trial_timeout": 10},
    )
    code, _ = lab.run()
    assert code == 3
    (reason,) = {t.reason for t in lab.stored().trials if t.status == "failed"}
    assert "the trial timed out in phase measure (checkpoint_bench)" in reason
    lab.assert_nothing_left()


def test_ctrl_c_ends_the_program_at_once_and_resume_goes_on(lab: Lab) -> None:
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(bench_sleep=3)},
        blocks=2,
        primary=[TEN],
    )
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="measure")
    until(lambda: any("checkpoint_bench" in line for line in lab.processes()), "the program runs")
    driver.process.send_signal(signal.SIGINT)
    assert driver.finish() == 130
    lab.assert_nothing_left()
    lab.write_spec(
        workloads={"bench": BENCH},
        variants={"base": variant(bench_sleep=3)},
        blocks=2,
        primary=[TEN],
    )
    assert lab.run(resume=True)[0] == 0
    assert [t.status for t in lab.stored().trials] == ["ok", "ok"]
