"""microbench: one benchmark program; its report says what it was built with, and that is checked.

Side by side the programs of all arms are alive and asked for slices in turn; alone it is one process from start to end.
"""

from __future__ import annotations

from perfrunner.measure.microbench import parse_microbench
from perfrunner.spec.workloads import MicrobenchSpec
from perfrunner.workloads.bench import Measured, Slicing, ToolBench, ToolEnsemble


def run(bench: ToolEnsemble, spec: MicrobenchSpec) -> list[Measured]:
    bench.phase("measure", spec.expected_seconds * len(bench.arms))
    return in_turns(bench, spec) if bench.side_by_side else [alone(bench.arms[0], spec)]


def in_turns(bench: ToolEnsemble, spec: MicrobenchSpec) -> list[Measured]:
    slicing = Slicing(spec.slice, spec.min_time * spec.repetitions, spec.filter)
    conducted = bench.conduct(spec.program, [], slicing, output="bench")
    return [
        Measured(
            metrics=report.metrics(spec.counters, spec.growth),
            facts={
                "context": dict(report.context),
                "slice": spec.slice,
                "rounds": conducted.rounds,
            },
        )
        for report in conducted.reports(bench.baseline)
    ]


def alone(arm: ToolBench, spec: MicrobenchSpec) -> Measured:
    arguments = [
        "--benchmark_format=json",
        f"--benchmark_filter={spec.filter}",
        f"--benchmark_min_time={spec.min_time:g}",
        f"--benchmark_repetitions={spec.repetitions}",
    ]
    report = parse_microbench(arm.tool(spec.program, arguments, output="bench"), "bench.json")
    arm.check_settings(report.context)
    return Measured(
        metrics=report.metrics(spec.counters, spec.growth), facts={"context": dict(report.context)}
    )
