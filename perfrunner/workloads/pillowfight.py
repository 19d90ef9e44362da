"""Run the `pillowfight` workload: populate, wait until everything is on disk, then mixed reads and writes for a time.

Sampling and counting begin after the populate phase, so that its allocations are not part of the measurement. With
`churn`, items are deleted and stored again before that, and memory is sampled over this time as well.
Interleaved, one process fills and drives all variants slice by slice, with the same keys and values. Sequentially, the
processes of several load clients each take a part of the key space and of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfrunner.measure.client import check_stored, cross_check
from perfrunner.measure.instructions import CountedLoad
from perfrunner.measure.memory import Sample, memory_metrics
from perfrunner.measure.slices import steady_window
from perfrunner.spec.workloads import PillowfightSpec, StepSpec
from perfrunner.spec.workloads.base import LEAST_KEY
from perfrunner.spec.workloads.pillowfight import ChurnSpec
from perfrunner.workloads.bench import Group, GroupArguments, Measured, ServerBench, Share
from perfrunner.workloads.metrics import (
    Driven,
    counted_by_server,
    cpu_metrics,
    driven,
    driven_interleaved,
    latency_metrics,
    load_facts,
    read,
    window_facts,
)

MOST_POINTS = 120  # of resident memory over time
# Seconds without load before the first slice. Time-driven work with a period of 100 ms fits twice.
IDLE_S = 0.2


def run(bench: Group, spec: PillowfightSpec) -> list[Measured]:
    if spec.churn is None:
        bench.phase("populate")
        store(bench, lambda variant, s: populate_arguments(spec, variant, s), "populate")
        churns = [Extra() for _ in bench.variants]
    else:
        churns = churn(bench, spec, spec.churn)

    bench.phase("persist")
    for variant in bench.variants:
        variant.wait_persisted()
        variant.reset_stats()
    before = [read(variant, "before") for variant in bench.variants]

    bench.phase("access")
    sampling = [variant.start_sampling("samples") for variant in bench.variants]
    loads = (
        run_interleaved(bench, spec) if bench.interleaved else [run_alone(bench.variants[0], spec)]
    )
    series = [sampler.stop() for sampler in sampling]
    now = [read(variant, "now") for variant in bench.variants]

    bench.phase("settle")
    bench.settle(spec.settle)
    settled = [variant.sample("settled") for variant in bench.variants]
    counted = count_instructions(bench, spec)

    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, start.sample, end.sample),
                **load.metrics,
                **latency_metrics(driven(load.report)),
                **memory_metrics(samples, end.sample, rest, complete=variant.has_figures),
                **counted_by_server(load.ops, start.counters, end.counters),
                **count.metrics,
                **churned.metrics,
            },
            report=load.report,
            check=cross_check(load.ops, start.counters, end.counters, in_flight(spec)),
            facts={**load.facts, **count.facts, **churned.facts},
        )
        for variant, load, start, samples, end, rest, count, churned in zip(
            bench.variants, loads, before, series, now, settled, counted, churns, strict=True
        )
    ]


def store(bench: Group, arguments: GroupArguments, output: str) -> None:
    """Run a populate phase on all variants: slice by slice if they are alive together."""
    if bench.interleaved:
        bench.prepare_interleaved("pillowfight", arguments, output=output)
    else:
        (variant,) = bench.variants
        check_stored(variant.load("pillowfight", lambda s: arguments(variant, s), output=output))


@dataclass(frozen=True)
class Extra:
    """The metrics and facts that a churn or a count of instructions adds; empty if it was not requested."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


def churn(bench: Group, spec: PillowfightSpec, how: ChurnSpec) -> list[Extra]:
    """Store all items, delete some, rest, and store these again with another size, in steps if there are any."""

    def resident(name: str) -> list[Sample]:
        for variant in bench.variants:
            variant.wait_persisted()
        return [variant.sample(name) for variant in bench.variants]

    def part(sized: PillowfightSpec, output: str, draw: int, *, remove: bool = False) -> None:
        def arguments(variant: ServerBench, share: Share) -> list[str]:
            return [
                *populate_arguments(sized, variant, share),
                f"--share={how.delete:g}",
                f"--draw={draw}",
                f"--key-draws={draw + (not remove)}",
                *(["--delete"] if remove else []),
            ]

        store(bench, arguments, output)

    empty = resident("empty")
    sampling = [variant.start_sampling("churn") for variant in bench.variants]
    bench.phase("populate")
    store(bench, lambda variant, s: populate_arguments(spec, variant, s), "populate")
    full = resident("full")

    bench.phase("delete")
    part(spec, "delete", 0, remove=True)
    bench.settle(how.wait)
    deleted = resident("deleted")

    bench.phase("populate again")
    part(spec.model_copy(update={"value_size": how.value_size}), "regrow", 0)
    for step, size in enumerate(how.steps, 1):
        if len(set(spec.key_size)) > 1:  # otherwise the same keys are replaced
            part(spec, f"delete-{step}", step, remove=True)
        part(spec.model_copy(update={"value_size": size}), f"step-{step}", step)
    regrown = resident("regrown")
    series = [sampler.stop() for sampler in sampling]
    readings = zip(empty, full, deleted, regrown, strict=True)
    return [churn_extra(each, samples) for each, samples in zip(readings, series, strict=True)]


def churn_extra(
    readings: tuple[Sample, Sample, Sample, Sample], samples: Sequence[Sample]
) -> Extra:
    """Return the metrics of a churn, its course, and the seconds at which its phases ended.

    `readings`: empty, full, after the deletion, and with the items back.
    """
    empty, full, deleted, regrown = readings
    stored = full.rss_true - empty.rss_true
    returned = 100.0 * (full.rss_true - deleted.rss_true) / stored if stored > 0 else None
    ends = [round(reading.t - samples[0].t, 3) for reading in (full, deleted, regrown)]
    return Extra(
        {
            "rss_full_bytes": float(full.rss_true),
            "rss_deleted_bytes": float(deleted.rss_true),
            "rss_regrown_bytes": float(regrown.rss_true),
            **({} if returned is None else {"rss_returned": returned}),
        },
        {"rss_over_time": over_time(samples), "churn_ends": ends},
    )


def over_time(samples: Sequence[Sample]) -> list[list[float]]:
    """Return (seconds since the first sample, resident bytes), at most MOST_POINTS of them at equal distances."""
    step = max(1, math.ceil(len(samples) / MOST_POINTS))
    return [
        [round(sample.t - samples[0].t, 3), float(sample.rss_true)] for sample in samples[::step]
    ]


def run_interleaved(bench: Group, spec: PillowfightSpec) -> list[Driven]:
    interleaved = bench.load_interleaved(
        "pillowfight",
        lambda variant, share: [
            *access_arguments(spec, variant, share),
            f"--slice={spec.slice:g}",
            f"--idle={IDLE_S:g}",
        ],
        output="client",
    )
    return driven_interleaved(interleaved, bench.baseline, limited=spec.rate_limit is not None)


def run_alone(variant: ServerBench, spec: PillowfightSpec) -> Driven:
    report = variant.load(
        "pillowfight", lambda s: access_arguments(spec, variant, s), output="client", in_step=True
    )
    phase = driven(report)
    window = steady_window(phase.series, spec.ramp)
    return Driven(
        report=report,
        ops=phase.ops,
        metrics={"ops_per_s": window.mean, "ops_per_s_p90": window.p90},
        facts={**window_facts(window), **load_facts(phase, float(window.seconds))},
    )


def count_instructions(bench: Group, spec: PillowfightSpec) -> list[Extra]:
    """Count the instructions per operation of each variant, and state the limitations of the count.

    The figure covers the front-end threads if they are known, because the work of background threads depends on time.
    """
    if not spec.instructions:
        return [Extra() for _ in bench.variants]
    bench.phase("count instructions")
    counts = []
    for variant in bench.variants:
        share = Share(0, 1)
        load = CountedLoad(
            common_arguments(spec, variant, share), mix_arguments(spec, variant, share)
        )
        count = variant.count_instructions(load, spec.instructions)
        per_op = count.per_op if count.front_end_per_op is None else count.front_end_per_op
        facts = {"method": count.method, "ops": count.ops, "blind_to": list(count.blind_to)}
        counts.append(Extra({"instructions_per_op": per_op}, {"instructions": facts}))
    return counts


def in_flight(spec: PillowfightSpec) -> int:
    """Return the maximum number of operations that a process has in flight at the end."""
    return spec.batch * spec.connections * spec.threads


def common_arguments(
    spec: PillowfightSpec | StepSpec, bench: ServerBench, share: Share
) -> list[str]:
    start, items = share.slice_of(spec.items)
    lognormal = isinstance(spec, PillowfightSpec) and spec.sizes == "lognormal"
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
        *(["--sizes=lognormal"] if lognormal else []),
        *key_arguments(spec),
    ]


def key_arguments(spec: PillowfightSpec | StepSpec) -> list[str]:
    """Return the limits of key lengths; none for the shortest keys."""
    if not isinstance(spec, PillowfightSpec) or spec.key_size == (LEAST_KEY, LEAST_KEY):
        return []
    return [f"--min-key-size={spec.key_size[0]}", f"--max-key-size={spec.key_size[1]}"]


def populate_arguments(
    spec: PillowfightSpec | StepSpec, bench: ServerBench, share: Share
) -> Sequence[str]:
    return [*common_arguments(spec, bench, share), "--populate-only"]


def mix_arguments(spec: PillowfightSpec, bench: ServerBench, share: Share) -> list[str]:
    """Return the flags that select operations and keys."""
    sized = spec.model_copy(update={"value_size": spec.all_sizes})
    return [
        *common_arguments(sized, bench, share),
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
    if spec.churn is not None:
        draws = 1 + len(spec.churn.steps)
        arguments += [f"--share={spec.churn.delete:g}", f"--key-draws={draws}"]
    if spec.shared_sequence:
        arguments.append("--shared-sequence")
    if spec.rate_limit is not None:
        arguments.append(f"--rate-limit={max(1, spec.rate_limit // share.count)}")
    return arguments
