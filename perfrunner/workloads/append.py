"""append: the fragmentation workload. Documents are loaded once and then grow by read-modify-writes.

A fixed amount of work, so its rate is the work over the time it took. The sampler runs from the start: the p99 of
RSS over the whole run belongs to the historic formula. One load process for each engine node, because the draws
of one seeded process are what makes the pattern repeat exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfrunner.errors import TrialError
from perfrunner.measure.client import Phase
from perfrunner.measure.counters import cross_check
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.window import steady_window
from perfrunner.spec.workloads import AppendSpec
from perfrunner.workloads.bench import Measured, ServerBench, Share
from perfrunner.workloads.metrics import cpu_metrics, driven, latency_metrics


def run(bench: ServerBench, spec: AppendSpec) -> Measured:
    before, counted_before = bench.sample("before"), bench.counters()

    bench.phase("load and update")
    sampling = bench.start_sampling("samples")
    report = bench.load(
        "append", lambda s: append_arguments(spec, bench, s), output="client", per_node=True
    )
    series = sampling.stop()
    now, counted_after = bench.sample("now"), bench.counters()

    bench.phase("settle", spec.settle)
    bench.settle(spec.settle)
    settled = bench.sample("settled")

    phase = driven(report)
    loaded = report.prepare.ops if report.prepare else 0
    facts: dict[str, object] = {}
    if report.live_bytes is not None:
        facts["live_bytes"] = report.live_bytes
    return Measured(
        metrics={
            "ops_per_s": phase.ops / phase.seconds,
            **p90(phase),
            **latency_metrics(phase),
            **cpu_metrics(loaded + phase.ops, report, before, now),
            **memory_metrics(series, now, settled),
        },
        report=report,
        check=cross_check(
            loaded + phase.ops, counted_before, counted_after, spec.in_flight * spec.threads
        ),
        facts=facts,
    )


def p90(phase: Phase) -> dict[str, float]:
    """Absent when the update took less than a whole second."""
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
