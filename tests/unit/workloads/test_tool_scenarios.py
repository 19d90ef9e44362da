"""What the programs without an engine are asked for, and what becomes of their reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.run.trial.toolbench import stat_groups
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec
from perfrunner.workloads import latency, microbench


class RecordingToolBench:
    """Answers with a fixed report; notes every verb in order."""

    def __init__(self, report: object, *, refuse: bool = False) -> None:
        self.report = report if isinstance(report, str) else json.dumps(report)
        self.refuse = refuse
        self.log: list[str] = []
        self.arguments: list[str] = []
        self.settings: dict[str, str] = {}

    def phase(self, name: str, expected_s: float | None = None) -> None:
        self.log.append(f"phase {name}")

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        self.log.append(f"tool {program} {output}")
        self.arguments = list(arguments)
        return self.report

    def check_settings(self, settings: Mapping[str, str]) -> None:
        self.log.append("check")
        self.settings = dict(settings)
        if self.refuse:
            raise TrialError("another build")


def gb_report() -> dict[str, Any]:
    return {
        "context": {"build.cursor_drop": "walk", "allocator.name": "system", "num_cpus": 2},
        "benchmarks": [
            {
                "run_name": f"FlushVBucket/discard/insert/{n}/iterations:10", "run_type": "iteration",
                "repetitions": 1, "real_time": 2.0 * n, "cpu_time": 1.0 * n, "time_unit": "us",
                "PeakBytesPerItem": 700.0,
            }
            for n in (1, 100, 10_000)
        ],
    }  # fmt: skip


MICROBENCH = MicrobenchSpec(
    type="microbench", program="flush_bench", filter="discard/(1|100)$", min_time=0.5, repetitions=3,
    counters=["PeakBytesPerItem"], growth=["FlushVBucket/discard/insert"],
)  # fmt: skip


def test_a_benchmark_is_asked_for_json_and_its_settings_are_checked() -> None:
    bench = RecordingToolBench(gb_report())
    measured = microbench.run(bench, MICROBENCH)
    assert bench.log == ["phase measure", "tool flush_bench bench", "check"]
    assert bench.arguments == [
        "--benchmark_format=json",
        "--benchmark_filter=discard/(1|100)$",
        "--benchmark_min_time=0.5",
        "--benchmark_repetitions=3",
    ]
    assert bench.settings["build.cursor_drop"] == "walk"
    assert measured.report is None
    assert measured.metrics["FlushVBucket/discard/insert/100"] == 200_000.0
    assert measured.metrics["FlushVBucket/discard/insert/100/PeakBytesPerItem"] == 700.0
    assert measured.metrics["FlushVBucket/discard/insert/growth"] == pytest.approx(1.0)


def latency_report(**changes: Any) -> dict[str, Any]:
    figures = {"p50_us": 1.0, "p95_us": 2.0, "p99_us": 3.0, "sd_us": 0.5, "mean_us": 1.1, "n": 5}
    return {
        "tool": "front_end_latency",
        "build": {"dcp_ready": "onelock"},
        "allocator": {
            "name": "jemalloc-5.1.0",
            "version": "5.1.0",
            "options": {"opt.narenas": "1"},
        },
        "phases": dict.fromkeys(("add", "get", "replace", "delete"), figures),
        "dcp": {"messages": 7},
        **changes,
    }


def test_the_latency_program_is_asked_for_what_the_spec_says() -> None:
    bench = RecordingToolBench(latency_report())
    spec = LatencySpec(type="latency", items=500, value_size=64, dcp="busy", bucket="ephemeral")
    measured = latency.run(bench, spec)
    assert bench.log == ["phase measure", "tool front_end_latency latency", "check"]
    assert bench.arguments == [
        "--items=500",
        "--value-size=64",
        "--dcp=busy",
        "--bucket-type=ephemeral",
    ]
    assert measured.metrics["Latency/Delete/p99_us"] == 3.0
    assert len(measured.metrics) == 16
    assert measured.facts["dcp"] == {"messages": 7}


def test_allocator_options_are_checked_under_the_names_of_stat_allocator() -> None:
    bench = RecordingToolBench(latency_report())
    latency.run(bench, LatencySpec(type="latency"))
    assert bench.settings == {
        "build.dcp_ready": "onelock",
        "allocator.name": "jemalloc-5.1.0",
        "allocator.version": "5.1.0",
        "allocator.opt.narenas": "1",
    }


@pytest.mark.parametrize(
    "report", ["", "[]", "{}", latency_report(phases={"add": {}}), latency_report(build=None)]
)
def test_what_is_no_latency_report_fails_the_trial(report: object) -> None:
    with pytest.raises(TrialError, match="no report of front_end_latency"):
        latency.run(RecordingToolBench(report), LatencySpec(type="latency"))


def test_another_build_fails_the_trial() -> None:
    with pytest.raises(TrialError, match="another build"):
        latency.run(RecordingToolBench(latency_report(), refuse=True), LatencySpec(type="latency"))
    with pytest.raises(TrialError, match="another build"):
        microbench.run(RecordingToolBench(gb_report(), refuse=True), MICROBENCH)


def test_a_programs_context_reads_like_the_engines_stat_groups() -> None:
    assert stat_groups(
        {
            "build.ht_stats": "core",
            "allocator.name": "system",
            "allocator.opt.narenas": "8",
            "num_cpus": "2",
        }
    ) == {
        "config": {"build.ht_stats": "core"},
        "allocator": {"name": "system", "opt.narenas": "8"},
    }
