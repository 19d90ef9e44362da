"""Run the `append` workload, which causes fragmentation: load documents once, then grow them by read-modify-writes.

The amount of work is fixed, so the rate is the work divided by its duration. The sampler runs from the start, because
the historic formula uses the p99 of RSS over the whole run. There is only one load process, because its seeded random
numbers make the pattern repeat exactly. Interleaved, the variants are loaded at the same time and updated slice by
slice, with the same updates for every variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfrunner.errors import TrialError
from perfrunner.measure.client import Phase, cross_check
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.slices import steady_window
from perfrunner.spec.workloads import AppendSpec
from perfrunner.workloads.bench import Group, Measured, ServerBench, Share
from perfrunner.workloads.metrics import (
    Driven,
    counted_by_server,
    cpu_metrics,
    driven,
    driven_interleaved,
    latency_metrics,
    load_facts,
    read,
)


def run(bench: Group, spec: AppendSpec) -> list[Measured]:
    before = [read(variant, "before") for variant in bench.variants]

    bench.phase("load and update")
    sampling = [variant.start_sampling("samples") for variant in bench.variants]
    loads = (
        run_interleaved(bench, spec) if bench.interleaved else [run_alone(bench.variants[0], spec)]
    )
    series = [sampler.stop() for sampler in sampling]
    now = [read(variant, "now") for variant in bench.variants]

    bench.phase("settle")
    bench.settle(spec.settle)
    settled = [variant.sample("settled") for variant in bench.variants]

    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, start.sample, end.sample),
                **load.metrics,
                **latency_metrics(driven(load.report)),
                **memory_metrics(samples, end.sample, rest),
                **counted_by_server(load.ops, start.counters, end.counters),
            },
            report=load.report,
            check=cross_check(
                load.ops, start.counters, end.counters, spec.in_flight * spec.threads
            ),
            facts={**load.facts, **live_bytes(load)},
        )
        for load, start, samples, end, rest in zip(loads, before, series, now, settled, strict=True)
    ]


def run_interleaved(bench: Group, spec: AppendSpec) -> list[Driven]:
    interleaved = bench.load_interleaved(
        "append",
        lambda variant, share: [
            *append_arguments(spec, variant, share),
            f"--slice-ops={spec.slice_ops}",
        ],
        output="client",
    )
    return [
        replace(load, ops=load.ops + loaded(load))
        for load in driven_interleaved(interleaved, bench.baseline)
    ]


def run_alone(variant: ServerBench, spec: AppendSpec) -> Driven:
    report = variant.load(
        "append", lambda s: append_arguments(spec, variant, s), output="client", single=True
    )
    phase = driven(report)
    metrics = {
        "ops_per_s": phase.ops / phase.seconds,
        **p90(phase),
        # The tool reports the CPU time of the updates only.
        "client_cpu_us_per_op": report.client.cpu_s * 1e6 / phase.ops,
    }
    load = Driven(report, phase.ops, metrics, load_facts(phase))
    return replace(load, ops=load.ops + loaded(load))


def loaded(load: Driven) -> int:
    """Return the operations of the load phase, which the counters of the server include."""
    return load.report.prepare.ops if load.report.prepare else 0


def live_bytes(load: Driven) -> dict[str, object]:
    """Return the bytes of keys and values that are stored at the end, as a fact."""
    live = load.report.live_bytes
    return {} if live is None else {"live_bytes": live}


def p90(phase: Phase) -> dict[str, float]:
    """Return the p90 of the rate; empty when the updates took less than a second."""
    try:
        window = steady_window(phase.series, 0.0)
    except TrialError:
        return {}
    return {"ops_per_s_p90": window.p90}


def append_arguments(spec: AppendSpec, bench: ServerBench, share: Share) -> Sequence[str]:
    _, items = share.slice_of(spec.items)
    return [
        f"--items={items}",
        f"--rounds={spec.rounds}",
        f"--in-flight={spec.in_flight * spec.threads}",
        f"--threads={spec.threads}",
        f"--fields-min={spec.fields[0]}",
        f"--fields-max={spec.fields[1]}",
        f"--vbuckets={bench.vbuckets}",
        f"--seed={share.seed(bench.seed)}",
    ]
