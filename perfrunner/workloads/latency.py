"""Run the `latency` workload: a program that times front-end operations next to a DCP client.

Its report has the settings of its build, which are checked.

Interleaved, the programs of all variants run the operations of a phase slice by slice. During the slice of another
variant a program is frozen: its DCP client sees no pause, and it takes no CPU time from the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perfrunner.errors import TrialError
from perfrunner.measure.microbench import Conducted
from perfrunner.spec.workloads import LatencySpec
from perfrunner.spec.workloads.latency import ITEMS_PER_S, PROGRAM
from perfrunner.workloads.bench import Measured, Slicing, ToolBench, ToolGroup

PHASES = ("add", "get", "replace", "delete")
FIGURES = ("p50_us", "p95_us", "p99_us", "sd_us")
# Computed from slices, robust over rounds. Tails and spread are computed from all operations together.
PAIRED = ("p50_us",)
TRANSFER = "dcp"  # the phase of the DCP client: one operation, reported as a rate


def run(bench: ToolGroup, spec: LatencySpec) -> list[Measured]:
    bench.phase("measure")
    return (
        run_interleaved(bench, spec) if bench.interleaved else [run_alone(bench.variants[0], spec)]
    )


def run_interleaved(bench: ToolGroup, spec: LatencySpec) -> list[Measured]:
    slicing = Slicing(spec.slice, 0.0, frozen=True)
    conducted = bench.conduct(PROGRAM, arguments(spec), slicing, output="latency")
    paired = paired_figures(conducted, bench.baseline)
    measured = []
    for index, variant in enumerate(conducted.variants):
        if variant.report is None:
            raise TrialError(f"{PROGRAM} printed no report")
        whole = figures(variant.report)
        facts: dict[str, object] = {
            "dcp": variant.report.get("dcp", {}),
            "context": dict(variant.context),
            "slice": spec.slice,
            "rounds": min(b.rounds for b in conducted.benchmarks if b.name != TRANSFER),
            "frozen": "programs outside their slice",
        }
        measured.append(Measured(metrics={**whole, **paired[index]}, facts=facts))
    return measured


def paired_figures(conducted: Conducted, baseline: int) -> list[dict[str, float]]:
    """Return, by variant, the figures of slices, each compared with the baseline in the same round."""
    paired: list[dict[str, float]] = [{} for _ in conducted.variants]
    for benchmark in conducted.benchmarks:
        if benchmark.name == TRANSFER:
            continue
        for figure in PAIRED:
            values = benchmark.counter(figure, baseline)
            if values is None:
                raise TrialError(
                    f"{PROGRAM} reported no {figure} for the slices of {benchmark.name}"
                )
            for index, value in enumerate(values):
                paired[index][f"Latency/{benchmark.name.capitalize()}/{figure}"] = value
    return paired


def run_alone(variant: ToolBench, spec: LatencySpec) -> Measured:
    text = variant.tool(PROGRAM, arguments(spec), output="latency")
    try:
        document = json.loads(text)
        settings = {f"build.{k}": str(v) for k, v in document["build"].items()}
        allocator = dict(document["allocator"])
        allocator |= allocator.pop("options", {})  # have names such as opt.x, as in STAT allocator
        settings |= {f"allocator.{k}": str(v) for k, v in allocator.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"latency.json is not a report of {PROGRAM}: {error!r}") from None
    metrics = figures(document)
    variant.check_settings(settings)
    return Measured(metrics=metrics, facts={"dcp": document.get("dcp", {}), "context": settings})


def figures(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a report: percentiles and spread of each phase, and the DCP rate if reported."""
    try:
        metrics = {
            f"Latency/{phase.capitalize()}/{figure}": float(document["phases"][phase][figure])
            for phase in PHASES
            for figure in FIGURES
        }
        rate = (document.get("dcp") or {}).get("items_per_s")
        return metrics if rate is None else {**metrics, ITEMS_PER_S: float(rate)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialError(f"latency.json is not a report of {PROGRAM}: {error!r}") from None


def arguments(spec: LatencySpec) -> list[str]:
    argv = [
        f"--items={spec.items}",
        f"--value-size={spec.value_size}",
        f"--dcp={spec.dcp}",
        f"--bucket-type={spec.bucket}",
    ]
    # Defaults are not passed, because an older variant may not know the option.
    if spec.backlog != "none":
        argv.append(f"--backlog={spec.backlog}")
    if spec.vbuckets != 1:
        argv.append(f"--vbuckets={spec.vbuckets}")
    if spec.busy_vbuckets is not None:
        argv.append(f"--busy-vbuckets={spec.busy_vbuckets}")
    if spec.buffer_size is not None or spec.ack_above is not None:
        argv += [f"--buffer-size={spec.buffer}", f"--ack-above={spec.unacknowledged}"]
    if spec.ht_size is not None:
        argv.append(f"--ht-size={spec.ht_size}")
    if spec.snapshot_interval_us is not None:
        argv.append(f"--snapshot-interval-us={spec.snapshot_interval_us}")
    return argv
