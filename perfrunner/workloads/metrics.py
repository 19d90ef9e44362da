"""Compute the metrics that all server workloads share, from reports, slices, samples and counters.

Throughput of interleaved variants is a robust estimate over rounds, in which a delayed slice counts as one of many. The
total over all slices is reported as well: if the two disagree, the difference lies in rare slices. A figure that a tool
or an allocator does not report yields no metric; values are never filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, Phase
from perfrunner.measure.memory import Sample
from perfrunner.measure.slices import (
    BUSY_FACT,
    LOAD_FACT,
    OPS_FACT,
    WAITS_FACT,
    GroupLoad,
    Slices,
    VariantLoad,
    Window,
)
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


@dataclass(frozen=True)
class Driven:
    """The load on one variant. `ops` is the number of operations that its server answered, including the warm-up."""

    report: ClientReport
    ops: int
    metrics: Mapping[str, float]
    facts: Mapping[str, object] = field(default_factory=dict)


def driven_interleaved(loaded: GroupLoad, baseline: int, *, limited: bool = False) -> list[Driven]:
    """Return the load on each variant, in the order of the variants.

    `limited`: the load has a rate limit. A slice is then empty if no batch is due in it, so the rate of a single slice
    means nothing: the throughput is that of all slices, and metrics of their distribution are omitted.
    """
    facts = {
        "slice": loaded.slice,
        "rounds": loaded.rounds,
        "warmup_rounds": loaded.warmup_rounds,
        "round_seed": loaded.round_seed,
    }
    levels = loaded.totals() if limited else loaded.levels(baseline)
    return [
        Driven(
            report=_with_warmup(variant),
            ops=variant.warmup_ops + driven(variant.report).ops,
            metrics={
                "ops_per_s": level,
                **slice_metrics(variant),
                **({} if limited else distribution(variant.slices)),
                **cpu_parts(variant, loaded),
            },
            facts={
                **facts,
                **load_facts(driven(variant.report), float(variant.slices.wall_ns.sum()) * 1e-9),
                **waits(variant),
            },
        )
        for variant, level in zip(loaded.variants, levels, strict=True)
    ]


def slice_metrics(variant: VariantLoad) -> dict[str, float]:
    """Return the throughput and the CPU times per operation over all slices."""
    slices = variant.slices
    ops = float(slices.ops.sum())
    metrics = {
        "ops_per_s_total": slices.total_rate,
        "client_cpu_us_per_op": float(slices.client_cpu_ns.sum()) / 1000.0 / ops,
    }
    if slices.cpu_ns is not None:
        metrics["server_cpu_us_per_op"] = float(slices.cpu_ns.sum()) / 1000.0 / ops
    return metrics


def distribution(slices: Slices) -> dict[str, float]:
    """Return the metrics that compare slices of a variant with each other."""
    return {
        "ops_per_s_p90": float(np.percentile(slices.rates, 90)),
        "slow_slices": 100.0 * slices.slow_share,
    }


def cpu_parts(variant: VariantLoad, loaded: GroupLoad) -> dict[str, float]:
    """Return the parts of the time per operation, and the CPU that the server used outside its slices.

    The first four parts add up to the time of a load thread per operation. A server that is alone does the work that
    its load caused, wherever it was done, but its time-driven work only while it is loaded. That work is what the
    server did per second without load; without such a reading all work counts as caused by the load. Empty without CPU
    clocks of all servers.
    """
    slices = variant.slices
    if slices.cpu_ns is None or slices.own_cpu_ns is None or slices.foreign_cpu_ns is None:
        return {}
    us_per_op = 1e-3 / float(slices.ops.sum())
    wall, own, foreign, client = (
        float(array.sum())
        for array in (
            slices.wall_ns,
            slices.own_cpu_ns,
            slices.foreign_cpu_ns,
            slices.client_cpu_ns,
        )
    )
    threads = variant.report.client.threads
    background = float(slices.cpu_ns.sum()) - own
    outside = loaded.seconds * 1e9 - wall
    idle_rate = None
    if loaded.idle_s > 0 and variant.idle_cpu_ns is not None:
        idle_rate = variant.idle_cpu_ns / (loaded.idle_s * 1e9)
    caused = max(0.0, background - (idle_rate or 0.0) * max(0.0, outside))
    metrics = {
        "own_cpu_us_per_op": own * us_per_op,
        "foreign_cpu_us_per_op": foreign * us_per_op,
        "waiting_us_per_op": (threads * wall - own - foreign - client) * us_per_op,
        "background_cpu_us_per_op": caused * us_per_op,
        "total_cpu_us_per_op": (own + caused) * us_per_op,
    }
    if idle_rate is not None:
        metrics["idle_cpu_ms_per_s"] = 1e3 * idle_rate
    if len(loaded.variants) > 1 and outside > 0:
        metrics["background_cpu_ms_per_s"] = 1e3 * background / outside
    return metrics


def waits(variant: VariantLoad) -> dict[str, object]:
    """Return the share of slices in which the load waited for a CPU, as a fact."""
    share = variant.slices.waits_share
    return {} if share is None else {WAITS_FACT: round(share, 4)}


def _with_warmup(variant: VariantLoad) -> ClientReport:
    """Return the report with the warm-up as its first phase, so that misses and errors in the warm-up count."""
    if variant.report.prepare is not None or not variant.warmup_ops:
        return variant.report
    warmup = Phase(
        ops=variant.warmup_ops,
        gets=0,
        sets=0,
        misses=variant.warmup_misses,
        errors=variant.warmup_errors,
        seconds=0.0,
    )
    return replace(variant.report, prepare=warmup)
