"""sdk: processes of an application that use the Couchbase Python SDK, and a proof that what they wrote is there.

Populate in batches, wait until all of it is on disk, then reads and writes one at a time. Afterwards every document is
read by processes of their own and compared with what was last written; where the spec asks for it, once more after the
engine was restarted on its data, and once more after a node was killed and its replicas were promoted. The arms run one
after the other: the SDK cannot be asked for slices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from perfrunner.measure.client import merge_reports, parse_report
from perfrunner.measure.counters import cross_check
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.verified import check_verified
from perfrunner.measure.window import steady_window
from perfrunner.spec.workloads import SdkSpec
from perfrunner.workloads.bench import Ensemble, Measured, ServerBench, Share
from perfrunner.workloads.metrics import (
    cpu_metrics,
    driven,
    latency_metrics,
    load_facts,
    read,
    window_facts,
)
from perfrunner.workloads.sdk_program import sdk_program
from perfrunner.workloads.turns import Driven

FACT = "contents"  # of a trial: after what how many documents were as last written


def run(bench: Ensemble, spec: SdkSpec) -> list[Measured]:
    (arm,) = bench.arms
    bench.phase("populate")
    program(arm, spec, "populate", populate_arguments, output="populate")

    bench.phase("persist")
    arm.wait_persisted()
    arm.reset_stats()
    before = read(arm, "before")

    bench.phase("access", None if spec.operations else spec.duration)
    sampling = arm.start_sampling("samples")
    load = access(arm, spec)
    samples = sampling.stop()
    now = read(arm, "now")

    bench.phase("settle", spec.settle)
    bench.settle(spec.settle)
    settled = arm.sample("settled")

    facts: dict[str, object] = {}
    verified = {"load": verify(bench, arm, spec, "load", arm.copies)}
    if spec.restart and arm.persistent:
        bench.phase("restart")
        arm.restart()
        verified["restart"] = verify(bench, arm, spec, "restart")
    if spec.failover:
        bench.phase("failover")
        arm.wait_persisted()  # and until the replicas have everything: nothing may be missing then
        facts["failover"] = arm.fail_over()
        verified["failover"] = verify(bench, arm, spec, "failover")

    phase = driven(load.report)
    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, before.sample, now.sample),
                **load.metrics,
                **latency_metrics(phase),
                **memory_metrics(samples, now.sample, settled),
                "errors": float(phase.error_count),
                "verified_items": float(min(verified.values())),
            },
            report=load.report,
            check=cross_check(load.ops, before.counters, now.counters, spec.processes),
            facts={**load.facts, **facts, FACT: verified},
        )
    ]


def access(arm: ServerBench, spec: SdkSpec) -> Driven:
    texts = program(arm, spec, "access", access_arguments, output="client", in_step=True)
    report = merge_reports([parse_report(text, name) for name, text in texts.items()])
    phase = driven(report)
    facts = {"sdk": versions(texts), "errors": dict(phase.errors)}
    if spec.operations is not None:
        rate = {"ops_per_s": phase.ops / phase.seconds}
        return Driven(report, phase.ops, rate, {**facts, **load_facts(phase)})
    window = steady_window(phase.series, spec.ramp)
    return Driven(
        report=report,
        ops=phase.ops,
        metrics={"ops_per_s": window.mean, "ops_per_s_p90": window.p90},
        facts={**facts, **window_facts(window), **load_facts(phase, float(window.seconds))},
    )


def verify(bench: Ensemble, arm: ServerBench, spec: SdkSpec, after: str, copies: int = 1) -> int:
    """How many documents were compared. TrialError when one is not what was last written, or a copy of it is not."""

    def arguments(spec: SdkSpec, arm: ServerBench, share: Share) -> list[str]:
        asked = [f"--copies={copies}"] if copies > 1 else []
        return [*verify_arguments(spec, arm, share), *asked]

    bench.phase(f"verify after {after}")
    texts = program(arm, spec, "verify", arguments, output=f"verify-{after}")
    return check_verified(texts, spec.items, f"after the {after}")


def versions(texts: Mapping[str, str]) -> Mapping[str, object]:
    """Of Python and the SDK, as the first process says: a fact of the trial."""
    found = json.loads(next(iter(texts.values()))).get("versions")
    return found if isinstance(found, dict) else {}


def program(
    arm: ServerBench,
    spec: SdkSpec,
    phase: str,
    arguments: Callable[[SdkSpec, ServerBench, Share], Sequence[str]],
    *,
    output: str,
    in_step: bool = False,
) -> Mapping[str, str]:
    """A phase of the client program in all its processes: what each printed, by file name."""
    return arm.load_program(
        sdk_program(),
        lambda share: [phase, *arguments(spec, arm, share)],
        output=output,
        processes=spec.processes,
        in_step=in_step,
    )


def populate_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    """Which keys, and what is stored under them: the contents follow from the trial's seed, whoever writes them."""
    start, items = share.slice_of(spec.items)
    return [
        f"--start-at={start}",
        f"--num-items={items}",
        f"--min-size={spec.value_size[0]}",
        f"--max-size={spec.value_size[1]}",
        f"--random-seed={bench.seed}",
    ]


def verify_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    return [
        *populate_arguments(spec, bench, share),
        f"--versions={bench.kept_for(share, 'versions')}",
    ]


def access_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    arguments = [
        *verify_arguments(spec, bench, share),
        f"--set-pct={spec.set_share:g}",
        f"--duration={spec.duration:g}",
        f"--durability={spec.durability}",
    ]
    if spec.operations is not None:
        _, operations = share.slice_of(spec.operations)
        arguments.append(f"--num-ops={operations}")
    return arguments
