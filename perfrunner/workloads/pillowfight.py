"""pillowfight: populate in sequence, wait until all of it is on disk, then mixed reads and writes for a time.

Sampling and counting begin after the populate phase, so that its allocations are the starting point and not a part
of what is timed. The processes of several load clients each take a slice of the key space and of the rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfrunner.measure.counters import cross_check
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.window import steady_window
from perfrunner.spec.workloads import PillowfightSpec
from perfrunner.workloads.bench import Measured, ServerBench, Share
from perfrunner.workloads.metrics import cpu_metrics, driven, latency_metrics, window_facts


def run(bench: ServerBench, spec: PillowfightSpec) -> Measured:
    bench.phase("populate")
    bench.load("pillowfight", lambda s: populate_arguments(spec, bench, s), output="populate")

    bench.phase("persist")
    bench.wait_persisted()
    bench.reset_stats()
    before, counted_before = bench.sample("before"), bench.counters()

    bench.phase("access", spec.duration)
    sampling = bench.start_sampling("samples")
    report = bench.load("pillowfight", lambda s: access_arguments(spec, bench, s), output="client")
    series = sampling.stop()
    now, counted_after = bench.sample("now"), bench.counters()

    bench.phase("settle", spec.settle)
    bench.settle(spec.settle)
    settled = bench.sample("settled")

    phase = driven(report)
    window = steady_window(phase.series, spec.ramp)
    return Measured(
        metrics={
            "ops_per_s": window.mean,
            "ops_per_s_p90": window.p90,
            **latency_metrics(phase),
            **cpu_metrics(phase.ops, report, before, now),
            **memory_metrics(series, now, settled),
        },
        report=report,
        check=cross_check(phase.ops, counted_before, counted_after, in_flight(spec)),
        facts=window_facts(window),
    )


def in_flight(spec: PillowfightSpec) -> int:
    """Operations a process may have under way when the time is up."""
    return spec.batch * spec.connections * spec.threads


def common_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> list[str]:
    start, items = share.slice_of(spec.items)
    return [
        f"--num-items={items}",
        f"--start-at={start}",
        f"--num-threads={spec.threads}",
        f"--connections={spec.connections}",
        f"--batch-size={spec.batch}",
        f"--min-size={spec.value_size[0]}",
        f"--max-size={spec.value_size[1]}",
        f"--vbuckets={bench.vbuckets}",
        f"--random-seed={share.seed(bench.seed)}",
    ]


def populate_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> Sequence[str]:
    return [*common_arguments(spec, bench, share), "--populate-only"]


def access_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> Sequence[str]:
    arguments = [
        *common_arguments(spec, bench, share),
        "--no-population",
        f"--set-pct={spec.set_share:g}",
        f"--key-semantics={spec.key_semantics}",
        f"--duration={spec.duration:g}",
        f"--ramp={spec.ramp:g}",
    ]
    if spec.shared_sequence:
        arguments.append("--shared-sequence")
    if spec.rate_limit is not None:
        arguments.append(f"--rate-limit={max(1, spec.rate_limit // share.count)}")
    return arguments
