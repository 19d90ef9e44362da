"""latency: the front-end latency program; its report says what it was built with, and that is checked.

Side by side the programs of all arms take turns at the operations of a phase. A program that is not in turn is frozen,
so that its DCP client finds things as if it had run without a pause, and takes no CPU from the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perfrunner.errors import TrialError
from perfrunner.measure.conducted import Conducted
from perfrunner.spec.workloads import LatencySpec
from perfrunner.spec.workloads.latency import ITEMS_PER_S
from perfrunner.workloads.bench import Measured, Slicing, ToolBench, ToolEnsemble

PHASES = ("add", "get", "replace", "delete")
FIGURES = ("p50_us", "p95_us", "p99_us", "sd_us")
PAIRED = (
    "p50_us",
)  # of slices, robust over rounds; the tails and the spread are of all operations together
PROGRAM = "front_end_latency"
TRANSFER = "dcp"  # the phase that is the client's: one operation, timed as a rate


def run(bench: ToolEnsemble, spec: LatencySpec) -> list[Measured]:
    bench.phase("measure", spec.expected_seconds * len(bench.arms))
    return in_turns(bench, spec) if bench.side_by_side else [alone(bench.arms[0], spec)]


def in_turns(bench: ToolEnsemble, spec: LatencySpec) -> list[Measured]:
    slicing = Slicing(spec.slice, 0.0, frozen=True)
    conducted = bench.conduct(PROGRAM, arguments(spec), slicing, output="latency")
    paired = paired_figures(conducted, bench.baseline)
    measured = []
    for place, arm in enumerate(conducted.arms):
        if arm.report is None:
            raise TrialError(f"{PROGRAM} ended without a report")
        whole = figures(arm.report)
        facts: dict[str, object] = {
            "dcp": arm.report.get("dcp", {}),
            "context": dict(arm.context),
            "slice": spec.slice,
            "rounds": min(b.rounds for b in conducted.benchmarks if b.name != TRANSFER),
            "frozen": "programs that are not in turn",
        }
        measured.append(Measured(metrics={**whole, **paired[place]}, facts=facts))
    return measured


def paired_figures(conducted: Conducted, baseline: int) -> list[dict[str, float]]:
    """By arm: the figures of slices, each compared with the baseline's of the same round."""
    found: list[dict[str, float]] = [{} for _ in conducted.arms]
    for benchmark in conducted.benchmarks:
        if benchmark.name == TRANSFER:
            continue
        for figure in PAIRED:
            values = benchmark.counter(figure, baseline)
            if values is None:
                raise TrialError(f"the slices of {benchmark.name} have no {figure}")
            for place, value in enumerate(values):
                found[place][f"Latency/{benchmark.name.capitalize()}/{figure}"] = value
    return found


def alone(arm: ToolBench, spec: LatencySpec) -> Measured:
    text = arm.tool(PROGRAM, arguments(spec), output="latency")
    try:
        document = json.loads(text)
        settings = {f"build.{k}": str(v) for k, v in document["build"].items()}
        allocator = dict(document["allocator"])
        allocator |= allocator.pop("options", {})  # named opt.x, as in STAT allocator
        settings |= {f"allocator.{k}": str(v) for k, v in allocator.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"latency.json is no report of {PROGRAM}: {error!r}") from None
    metrics = figures(document)
    arm.check_settings(settings)
    return Measured(metrics=metrics, facts={"dcp": document.get("dcp", {}), "context": settings})


def figures(document: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a report: percentiles and spread of each phase, and the client's rate where it was timed."""
    try:
        found = {
            f"Latency/{phase.capitalize()}/{figure}": float(document["phases"][phase][figure])
            for phase in PHASES
            for figure in FIGURES
        }
        rate = (document.get("dcp") or {}).get("items_per_s")
        return found if rate is None else {**found, ITEMS_PER_S: float(rate)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialError(f"latency.json is no report of {PROGRAM}: {error!r}") from None


def arguments(spec: LatencySpec) -> list[str]:
    found = [
        f"--items={spec.items}",
        f"--value-size={spec.value_size}",
        f"--dcp={spec.dcp}",
        f"--bucket-type={spec.bucket}",
    ]
    # What a spec leaves at its default is not asked for: an arm may be older than the setting.
    if spec.backlog != "none":
        found.append(f"--backlog={spec.backlog}")
    if spec.vbuckets != 1:
        found.append(f"--vbuckets={spec.vbuckets}")
    if spec.busy_vbuckets is not None:
        found.append(f"--busy-vbuckets={spec.busy_vbuckets}")
    if spec.buffer_size is not None or spec.ack_above is not None:
        found += [f"--buffer-size={spec.buffer}", f"--ack-above={spec.unacknowledged}"]
    if spec.ht_size is not None:
        found.append(f"--ht-size={spec.ht_size}")
    if spec.snapshot_interval_us is not None:
        found.append(f"--snapshot-interval-us={spec.snapshot_interval_us}")
    return found
