"""Run the `step` workload: change a cluster under load and measure what its clients see.

After the populate phase, wait until everything is on disk and on the replicas. Then run a load that records its
writes. During the load a node is killed and its replicas are promoted, or vBuckets move to another node. At the end
every document is read and compared with the last acknowledged write. The variants run sequentially, because each
changes its own cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, merge_reports, parse_report
from perfrunner.measure.stepped import CheckedConsistency, parse_checked_consistency, step_metrics
from perfrunner.measure.window import PARTS_FACT
from perfrunner.spec.workloads import StepSpec
from perfrunner.workloads.bench import Around, Group, Measured, ServerBench, Share
from perfrunner.workloads.metrics import driven, latency_metrics, load_facts
from perfrunner.workloads.pillowfight import common_arguments, populate_arguments

FACT = "step"  # fact of a trial: the change, its time, and its effects on the load
PATIENCE_S = 60.0  # time-out of an operation, in addition to the detection time


def run(bench: Group, spec: StepSpec) -> list[Measured]:
    (variant,) = bench.variants
    bench.phase("populate")
    variant.load("pillowfight", lambda s: populate_arguments(spec, variant, s), output="populate")

    bench.phase("persist")
    variant.wait_persisted()
    variant.reset_stats()

    bench.phase(f"access and {spec.change}", spec.ramp + spec.before + spec.detection + spec.after)
    around = variant.load_around(
        "consistency_checker",
        lambda s: consistency_checker_arguments(spec, variant, s),
        lambda: change(variant, spec),
        output="client",
        before=spec.ramp + spec.before,
        after=spec.after,
    )
    consistency = parse_checked_consistency(around.texts)
    require_consistent_record(consistency, spec)

    report = merge_reports([parse_report(text, name) for name, text in around.texts.items()])
    phase = driven(report)
    metrics = step_metrics(consistency.per_ms, spec.ramp, around.began, around.ended, phase.seconds)
    return [
        Measured(
            metrics={
                **metrics,
                **latency_metrics(phase),
                "client_cpu_us_per_op": report.client.cpu_s * 1e6 / phase.ops,
                "nmvb_retries": float(consistency.not_my_vbucket),
                "misses": float(phase.misses),
                "lost_writes": float(consistency.lost),
            },
            report=without_misses(report),
            facts={
                **load_facts(phase, phase.seconds - spec.ramp),
                PARTS_FACT: {
                    "before": round(around.began - spec.ramp, 6),
                    "during": round(around.ended - around.began, 6),
                    "after": round(phase.seconds - around.ended, 6),
                },
                FACT: step_facts(around, consistency),
            },
        )
    ]


def change(variant: ServerBench, spec: StepSpec) -> Mapping[str, object]:
    if spec.change == "failover":
        return variant.fail_over(spec.detection)
    return variant.rebalance(spec.share, spec.at_once)


def require_consistent_record(consistency: CheckedConsistency, spec: StepSpec) -> None:
    """Raise TrialError if the record of writes cannot be correct."""
    if consistency.missing_before:
        raise TrialError(f"{consistency.missing_before} documents were missing before the step")
    if consistency.documents != spec.items:
        raise TrialError(
            f"{consistency.documents} of {spec.items} documents were read after the step"
        )
    if consistency.foreign:
        raise TrialError(f"{consistency.foreign} documents were written by another client")


def without_misses(report: ClientReport) -> ClientReport:
    """Remove the misses: here they are a metric and no reason to discard the trial (limits.misses)."""
    return replace(report, drive=replace(driven(report), misses=0))


def step_facts(around: Around, consistency: CheckedConsistency) -> Mapping[str, object]:
    return {
        **around.step,
        "began_s": round(around.began, 3),
        "ended_s": round(around.ended, 3),
        "broken_off": consistency.broken_off,
        "maps": consistency.maps,
        "verified_documents": consistency.documents,
    }


def consistency_checker_arguments(spec: StepSpec, bench: ServerBench, share: Share) -> list[str]:
    return [
        *common_arguments(spec, bench, share),
        f"--set-pct={spec.set_share:g}",
        f"--ramp={spec.ramp:g}",
        f"--op-timeout={PATIENCE_S + spec.detection:g}",
    ]
