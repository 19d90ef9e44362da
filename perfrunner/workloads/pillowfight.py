"""pillowfight: populate in sequence, wait until all of it is on disk, then mixed reads and writes for a time.

Sampling and counting begin after the populate phase, so that its allocations are the starting point and not a part
of what is timed. Side by side one process fills and drives all arms in turn, with the same keys and values; alone, the
processes of several load clients each take a part of the key space and of the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfrunner.measure.counters import cross_check
from perfrunner.measure.instructions import CountedLoad
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.window import steady_window
from perfrunner.spec.workloads import PillowfightSpec, StepSpec
from perfrunner.workloads.bench import Ensemble, Measured, ServerBench, Share
from perfrunner.workloads.metrics import (
    cpu_metrics,
    driven,
    latency_metrics,
    load_facts,
    read,
    window_facts,
)
from perfrunner.workloads.turns import Driven, driven_in_turns


def run(bench: Ensemble, spec: PillowfightSpec) -> list[Measured]:
    bench.phase("populate")
    populate(bench, spec)

    bench.phase("persist")
    for arm in bench.arms:
        arm.wait_persisted()
        arm.reset_stats()
    before = [read(arm, "before") for arm in bench.arms]

    bench.phase("access", spec.duration * len(bench.arms))
    sampling = [arm.start_sampling("samples") for arm in bench.arms]
    loads = in_turns(bench, spec) if bench.side_by_side else [alone(bench.arms[0], spec)]
    series = [one.stop() for one in sampling]
    now = [read(arm, "now") for arm in bench.arms]

    bench.phase("settle", spec.settle)
    bench.settle(spec.settle)
    settled = [arm.sample("settled") for arm in bench.arms]
    counted = count_instructions(bench, spec)

    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, start.sample, end.sample),
                **load.metrics,
                **latency_metrics(driven(load.report)),
                **memory_metrics(samples, end.sample, rest),
                **count.metrics,
            },
            report=load.report,
            check=cross_check(load.ops, start.counters, end.counters, in_flight(spec)),
            facts={**load.facts, **count.facts},
        )
        for load, start, samples, end, rest, count in zip(
            loads, before, series, now, settled, counted, strict=True
        )
    ]


def populate(bench: Ensemble, spec: PillowfightSpec) -> None:
    if bench.side_by_side:
        bench.prepare_in_turns(
            "pillowfight", lambda arm, s: populate_arguments(spec, arm, s), output="populate"
        )
    else:
        (arm,) = bench.arms
        arm.load("pillowfight", lambda s: populate_arguments(spec, arm, s), output="populate")


def in_turns(bench: Ensemble, spec: PillowfightSpec) -> list[Driven]:
    turns = bench.load_in_turns(
        "pillowfight",
        lambda arm, share: [*access_arguments(spec, arm, share), f"--slice={spec.slice:g}"],
        output="client",
    )
    return driven_in_turns(turns, bench.baseline)


def alone(arm: ServerBench, spec: PillowfightSpec) -> Driven:
    report = arm.load(
        "pillowfight", lambda s: access_arguments(spec, arm, s), output="client", in_step=True
    )
    phase = driven(report)
    window = steady_window(phase.series, spec.ramp)
    return Driven(
        report=report,
        ops=phase.ops,
        metrics={"ops_per_s": window.mean, "ops_per_s_p90": window.p90},
        facts={**window_facts(window), **load_facts(phase, float(window.seconds))},
    )


@dataclass(frozen=True)
class Counted:
    """An arm's exact count, and what it cannot see; both empty where none was asked for."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


def count_instructions(bench: Ensemble, spec: PillowfightSpec) -> list[Counted]:
    """What background threads do goes by the clock, so the front end's share is the figure where it is known."""
    if not spec.instructions:
        return [Counted() for _ in bench.arms]
    bench.phase("count instructions")
    found = []
    for arm in bench.arms:
        share = Share(0, 1)
        load = CountedLoad(common_arguments(spec, arm, share), mix_arguments(spec, arm, share))
        count = arm.count_instructions(load, spec.instructions)
        per_op = count.per_op if count.front_end_per_op is None else count.front_end_per_op
        facts = {"method": count.method, "ops": count.ops, "blind_to": list(count.blind_to)}
        found.append(Counted({"instructions_per_op": per_op}, {"instructions": facts}))
    return found


def in_flight(spec: PillowfightSpec) -> int:
    """Operations a process may have under way when the time is up."""
    return spec.batch * spec.connections * spec.threads


def common_arguments(
    spec: PillowfightSpec | StepSpec, bench: ServerBench, share: Share
) -> list[str]:
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


def populate_arguments(
    spec: PillowfightSpec | StepSpec, bench: ServerBench, share: Share
) -> Sequence[str]:
    return [*common_arguments(spec, bench, share), "--populate-only"]


def mix_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> list[str]:
    """Which operations on which keys."""
    return [
        *common_arguments(spec, bench, share),
        f"--set-pct={spec.set_share:g}",
        f"--key-semantics={spec.key_semantics}",
    ]


def access_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> Sequence[str]:
    arguments = [
        *mix_arguments(spec, bench, share),
        "--no-population",
        f"--duration={spec.duration:g}",
        f"--ramp={spec.ramp:g}",
    ]
    if spec.shared_sequence:
        arguments.append("--shared-sequence")
    if spec.rate_limit is not None:
        arguments.append(f"--rate-limit={max(1, spec.rate_limit // share.count)}")
    return arguments
