"""Run the `microbench` workload: one benchmark program. Its report has the settings of its build, which are checked.

Interleaved, the programs of all variants are alive and run slice by slice. Sequentially, each runs uninterrupted.
"""

from __future__ import annotations

from perfrunner.measure.microbench import parse_microbench
from perfrunner.spec.workloads import MicrobenchSpec
from perfrunner.workloads.bench import Measured, Slicing, ToolBench, ToolGroup


def run(bench: ToolGroup, spec: MicrobenchSpec) -> list[Measured]:
    bench.phase("measure")
    return (
        run_interleaved(bench, spec) if bench.interleaved else [run_alone(bench.variants[0], spec)]
    )


def run_interleaved(bench: ToolGroup, spec: MicrobenchSpec) -> list[Measured]:
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


def run_alone(variant: ToolBench, spec: MicrobenchSpec) -> Measured:
    arguments = [
        "--benchmark_format=json",
        f"--benchmark_filter={spec.filter}",
        f"--benchmark_min_time={spec.min_time:g}",
        f"--benchmark_repetitions={spec.repetitions}",
    ]
    report = parse_microbench(variant.tool(spec.program, arguments, output="bench"), "bench.json")
    variant.check_settings(report.context)
    return Measured(
        metrics=report.metrics(spec.counters, spec.growth), facts={"context": dict(report.context)}
    )
