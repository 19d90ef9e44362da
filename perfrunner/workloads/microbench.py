"""microbench: one benchmark program, one process; its report says what it was built with, and that is checked."""

from __future__ import annotations

from perfrunner.measure.microbench import parse_microbench
from perfrunner.spec.workloads import MicrobenchSpec
from perfrunner.workloads.bench import Measured, ToolBench


def run(bench: ToolBench, spec: MicrobenchSpec) -> Measured:
    bench.phase("measure", spec.expected_seconds)
    arguments = [
        "--benchmark_format=json",
        f"--benchmark_filter={spec.filter}",
        f"--benchmark_min_time={spec.min_time:g}",
        f"--benchmark_repetitions={spec.repetitions}",
    ]
    report = parse_microbench(bench.tool(spec.program, arguments, output="bench"), "bench.json")
    bench.check_settings(report.context)
    return Measured(
        metrics=report.metrics(spec.counters, spec.growth), facts={"context": dict(report.context)}
    )
