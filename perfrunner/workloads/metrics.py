"""Compute the metrics that all server workloads share, from reports, samples and counters.

A figure that a tool or an allocator does not report yields no metric; values are never filled in.
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
    """The state of a variant at one instant: memory, CPU time, and the counters of its server."""

    sample: Sample
    counters: Mapping[str, float]


def read(variant: ServerBench, name: str) -> Reading:
    """Read the state of a variant now; the sample is kept as `<name>.jsonl`."""
    return Reading(variant.sample(name), variant.counters())


def driven(report: ClientReport) -> Phase:
    """Return the measured phase of a report; raise TrialError if it is missing or was interrupted."""
    if report.drive is None:
        raise TrialError(f"{report.tool} reported no measured phase")
    if report.interrupted:
        raise TrialError(f"{report.tool} was interrupted before the end of its phase")
    return report.drive


def latency_metrics(phase: Phase) -> dict[str, float]:
    """Return percentiles of the merged histograms, in µs. Operations without a sample have none."""
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
    """Return how much data a trial's figures are based on: measured seconds and timed operations.

    `seconds` defaults to the duration of the phase.
    """
    timed = {kind: histogram.count for kind, histogram in sorted(phase.latency.items())}
    return {LOAD_FACT: round(phase.seconds if seconds is None else seconds, 6), OPS_FACT: timed}


def client_facts(measured: Measured) -> dict[str, object]:
    """Return how busy the busiest load thread was, if the tool reports it."""
    busy = None if measured.report is None else measured.report.client.busiest_thread_busy
    return {} if busy is None else {BUSY_FACT: round(busy, 4)}


def cpu_metrics(ops: int, report: ClientReport, before: Sample, after: Sample) -> dict[str, float]:
    """Return the CPU time per operation of the client and of the engine, including its background work.

    `ops` is the number of operations between the two samples. The kernel counts the engine's time in ticks of 10 ms: if
    the load is shorter than a tick, the engine's figure is omitted.
    """
    if not ops:
        raise TrialError(f"{report.tool} completed no operation")
    metrics = {"client_cpu_us_per_op": report.client.cpu_s * 1e6 / ops}
    if after.cpu_s > before.cpu_s:
        metrics["server_cpu_us_per_op"] = (after.cpu_s - before.cpu_s) * 1e6 / ops
    return metrics


def counted_by_server(
    ops: int, before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, float]:
    """Return what the server itself counts: writes not yet on disk at the end, and what an injected fault burnt."""
    metrics = {}
    if "ep_queue_size" in after:
        metrics["unpersisted_items"] = after["ep_queue_size"]
    burnt, clock = (
        after[key] - before[key] if key in before and key in after else 0.0
        for key in ("injected_burnt_ns", "injected_clock_ns")
    )
    if clock > 0:
        metrics["injected_us_per_op"] = burnt / 1e3 / ops
        metrics["injected_ms_per_s"] = 1e3 * burnt / clock
    return metrics


def window_facts(window: Window) -> Mapping[str, object]:
    """Return facts about the steady window, with a note if the rate drifts."""
    facts: dict[str, object] = {"steady_seconds": window.seconds}
    if window.slope is not None:
        facts["steady_slope"] = round(window.slope, 4)
    if window.drifts:
        facts["note"] = f"the rate drifts by {window.slope:+.0%} over the steady window"
    return facts
