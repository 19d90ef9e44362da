"""append: the fragmentation workload. Documents are loaded once and then grow by read-modify-writes.

A fixed amount of work, so its rate is the work over the time it took. The sampler runs from the start: the p99 of
RSS over the whole run belongs to the historic formula. One load process, whatever the number of clients, because the
draws of one seeded process are what makes the pattern repeat exactly. Side by side the arms are loaded at the same
time, and take turns at the updates; every arm does the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfrunner.errors import TrialError
from perfrunner.measure.client import Phase
from perfrunner.measure.counters import cross_check
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.window import steady_window
from perfrunner.spec.workloads import AppendSpec
from perfrunner.workloads.bench import Ensemble, Measured, ServerBench, Share
from perfrunner.workloads.metrics import cpu_metrics, driven, latency_metrics, load_facts, read
from perfrunner.workloads.turns import Driven, driven_in_turns


def run(bench: Ensemble, spec: AppendSpec) -> list[Measured]:
    before = [read(arm, "before") for arm in bench.arms]

    bench.phase("load and update")
    sampling = [arm.start_sampling("samples") for arm in bench.arms]
    loads = in_turns(bench, spec) if bench.side_by_side else [alone(bench.arms[0], spec)]
    series = [one.stop() for one in sampling]
    now = [read(arm, "now") for arm in bench.arms]

    bench.phase("settle", spec.settle)
    bench.settle(spec.settle)
    settled = [arm.sample("settled") for arm in bench.arms]

    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, start.sample, end.sample),
                **load.metrics,
                **latency_metrics(driven(load.report)),
                **memory_metrics(samples, end.sample, rest),
            },
            report=load.report,
            check=cross_check(
                load.ops, start.counters, end.counters, spec.in_flight * spec.threads
            ),
            facts={**load.facts, **live_bytes(load)},
        )
        for load, start, samples, end, rest in zip(loads, before, series, now, settled, strict=True)
    ]


def in_turns(bench: Ensemble, spec: AppendSpec) -> list[Driven]:
    turns = bench.load_in_turns(
        "append",
        lambda arm, share: [*append_arguments(spec, arm, share), f"--slice-ops={spec.slice_ops}"],
        output="client",
    )
    return [
        replace(load, ops=load.ops + loaded(load))
        for load in driven_in_turns(turns, bench.baseline)
    ]


def alone(arm: ServerBench, spec: AppendSpec) -> Driven:
    report = arm.load(
        "append", lambda s: append_arguments(spec, arm, s), output="client", single=True
    )
    phase = driven(report)
    metrics = {"ops_per_s": phase.ops / phase.seconds, **p90(phase)}
    load = Driven(report, phase.ops, metrics, load_facts(phase))
    return replace(load, ops=load.ops + loaded(load))


def loaded(load: Driven) -> int:
    """Operations of the first phase, which the server counted too."""
    return load.report.prepare.ops if load.report.prepare else 0


def live_bytes(load: Driven) -> dict[str, object]:
    """Key and value bytes that should be stored at the end."""
    live = load.report.live_bytes
    return {} if live is None else {"live_bytes": live}


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
