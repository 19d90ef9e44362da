"""The metrics that every workload on a server yields, from what its phases left.

A figure that a tool or an allocator does not give yields no metric; nothing is ever filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, Phase
from perfrunner.measure.samples import Sample
from perfrunner.measure.window import BUSY_FACT, LOAD_FACT, OPS_FACT, Window
from perfrunner.workloads.bench import Measured, ServerBench

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}


@dataclass(frozen=True)
class Reading:
    """An arm at one instant: its memory and CPU time, and its server's counters."""

    sample: Sample
    counters: Mapping[str, float]


def read(arm: ServerBench, name: str) -> Reading:
    """Now; the sample is kept as `<name>.jsonl`."""
    return Reading(arm.sample(name), arm.counters())


def driven(report: ClientReport) -> Phase:
    """The measured phase; its absence means that the tool was asked for something else."""
    if report.drive is None:
        raise TrialError(f"{report.tool} reported no driven phase")
    if report.interrupted:
        raise TrialError(f"{report.tool} was interrupted before the end of its phase")
    return report.drive


def latency_metrics(phase: Phase) -> dict[str, float]:
    """Percentiles of the merged histograms, in µs; an operation that never happened has none."""
    metrics = {}
    for operation in ("get", "set"):
        histogram = phase.latency.get(operation)
        if histogram is None:
            continue
        for name, percent in PERCENTILES.items():
            value = histogram.percentile_ns(percent)
            if value is not None:
                metrics[f"latency_{operation}_{name}_us"] = value / 1000.0
    return metrics


def load_facts(phase: Phase, seconds: float | None = None) -> dict[str, object]:
    """How much a trial's figures rest on: seconds of load that counted (the phase's, if not said), operations timed."""
    timed = {kind: histogram.count for kind, histogram in sorted(phase.latency.items())}
    return {LOAD_FACT: round(phase.seconds if seconds is None else seconds, 6), OPS_FACT: timed}


def client_facts(measured: Measured) -> dict[str, object]:
    """How busy the busiest load thread was, where a tool says so."""
    busy = None if measured.report is None else measured.report.client.busiest_thread_busy
    return {} if busy is None else {BUSY_FACT: round(busy, 4)}


def cpu_metrics(ops: int, report: ClientReport, before: Sample, after: Sample) -> dict[str, float]:
    """CPU time per operation of the engine (its background work of that time included) and of the client.

    `ops` are all that the client process drove between the two samples. The kernel counts the engine's time in ticks of
    10 ms: a load too short for one leaves the figure out, it did not cost nothing.
    """
    if not ops:
        raise TrialError(f"{report.tool} drove no operation at all")
    found = {"client_cpu_us_per_op": report.client.cpu_s * 1e6 / ops}
    if after.cpu_s > before.cpu_s:
        found["server_cpu_us_per_op"] = (after.cpu_s - before.cpu_s) * 1e6 / ops
    return found


def window_facts(window: Window) -> Mapping[str, object]:
    """How the steady window looked; the slope of one that drifts is noted with the trial."""
    facts: dict[str, object] = {"steady_seconds": window.seconds}
    if window.slope is not None:
        facts["steady_slope"] = round(window.slope, 4)
    if window.drifts:
        facts["note"] = f"the rate drifts by {window.slope:+.0%} over the steady window"
    return facts
