"""step: a cluster that changes under load, and what its clients see of it.

Populate, wait until all of it is on disk and on the replicas. Then a load that keeps account of its writes; under it a
node is killed and its replicas are promoted, or vBuckets move to another node. In the end every document is read and
compared with the last write that was acknowledged. The arms run one after the other: each changes its own cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, merge_reports, parse_report
from perfrunner.measure.stepped import Witnessed, parse_witnessed, step_metrics
from perfrunner.measure.window import PARTS_FACT
from perfrunner.spec.workloads import StepSpec
from perfrunner.workloads.bench import Around, Ensemble, Measured, ServerBench, Share
from perfrunner.workloads.metrics import driven, latency_metrics, load_facts
from perfrunner.workloads.pillowfight import common_arguments, populate_arguments

FACT = "step"  # of a trial: what was done, when, and what the load met
PATIENCE_S = 60.0  # without any operation, beyond the time until the failover begins


def run(bench: Ensemble, spec: StepSpec) -> list[Measured]:
    (arm,) = bench.arms
    bench.phase("populate")
    arm.load("pillowfight", lambda s: populate_arguments(spec, arm, s), output="populate")

    bench.phase("persist")
    arm.wait_persisted()
    arm.reset_stats()

    bench.phase(f"access and {spec.change}", spec.ramp + spec.before + spec.detection + spec.after)
    around = arm.load_around(
        "witness",
        lambda s: witness_arguments(spec, arm, s),
        lambda: change(arm, spec),
        output="client",
        before=spec.ramp + spec.before,
        after=spec.after,
    )
    found = parse_witnessed(around.texts)
    complain(found, spec)

    report = merge_reports([parse_report(text, name) for name, text in around.texts.items()])
    phase = driven(report)
    metrics = step_metrics(found.per_ms, spec.ramp, around.began, around.ended, phase.seconds)
    return [
        Measured(
            metrics={
                **metrics,
                **latency_metrics(phase),
                "client_cpu_us_per_op": report.client.cpu_s * 1e6 / phase.ops,
                "nmvb_retries": float(found.not_my_vbucket),
                "misses": float(phase.misses),
                "lost_writes": float(found.lost),
            },
            report=without_misses(report),
            facts={
                **load_facts(phase, phase.seconds - spec.ramp),
                PARTS_FACT: {
                    "before": round(around.began - spec.ramp, 6),
                    "during": round(around.ended - around.began, 6),
                    "after": round(phase.seconds - around.ended, 6),
                },
                FACT: step_facts(around, found),
            },
        )
    ]


def change(arm: ServerBench, spec: StepSpec) -> Mapping[str, object]:
    if spec.change == "failover":
        return arm.fail_over(spec.detection)
    return arm.rebalance(spec.share, spec.at_once)


def complain(found: Witnessed, spec: StepSpec) -> None:
    """TrialError where the account of writes cannot be right."""
    if found.missing_before:
        raise TrialError(f"{found.missing_before} documents were missing before the step")
    if found.documents != spec.items:
        raise TrialError(f"{found.documents} documents of {spec.items} were read after the step")
    if found.foreign:
        raise TrialError(f"{found.foreign} documents were written by somebody else")


def without_misses(report: ClientReport) -> ClientReport:
    """They are a figure of the step here, and no reason to do it again (limits.misses)."""
    return replace(report, drive=replace(driven(report), misses=0))


def step_facts(around: Around, found: Witnessed) -> Mapping[str, object]:
    return {
        **around.step,
        "began_s": round(around.began, 3),
        "ended_s": round(around.ended, 3),
        "broken_off": found.broken_off,
        "maps": found.maps,
        "verified_documents": found.documents,
    }


def witness_arguments(spec: StepSpec, bench: ServerBench, share: Share) -> list[str]:
    return [
        *common_arguments(spec, bench, share),
        f"--set-pct={spec.set_share:g}",
        f"--ramp={spec.ramp:g}",
        f"--op-timeout={PATIENCE_S + spec.detection:g}",
    ]
