"""Run the `step` workload: change a cluster under load and measure what its clients see.

After the populate phase, wait until everything is on disk and on the replicas. Then run a load that records its
writes. During the load a node is killed and its replicas are promoted, or vBuckets move to another node. At the end
every document is read and compared with the last acknowledged write. The variants run sequentially, because each
changes its own cluster.

The consistency checker counts the operations completed in each millisecond since its mixed phase began. Throughput and
the longest gap follow from these counts and the time of the step (`step_metrics`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, parse_reports
from perfrunner.measure.slices import PARTS_FACT
from perfrunner.spec.workloads import StepSpec
from perfrunner.workloads.bench import Around, Group, Measured, ServerBench, Share
from perfrunner.workloads.metrics import driven, latency_metrics, load_facts
from perfrunner.workloads.pillowfight import common_arguments, populate_arguments

STEP_FACT = "step"  # fact of a trial: the change, its time, and its effects on the load
PATIENCE_S = 60.0  # time-out of an operation, in addition to the detection time


def run(bench: Group, spec: StepSpec) -> list[Measured]:
    (variant,) = bench.variants
    bench.phase("populate")
    variant.load("pillowfight", lambda s: populate_arguments(spec, variant, s), output="populate")

    bench.phase("persist")
    variant.wait_persisted()
    variant.reset_stats()

    bench.phase(f"access and {spec.change}")
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

    report = parse_reports(around.texts)
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
                STEP_FACT: step_facts(around, consistency),
            },
        )
    ]


def change(variant: ServerBench, spec: StepSpec) -> Mapping[str, object]:
    if spec.change == "failover":
        return variant.fail_over(spec.detection)
    return variant.rebalance(spec.share, spec.at_once)


def require_consistent_record(consistency: CheckedConsistency, spec: StepSpec) -> None:
    """Raise TrialError if the record of writes cannot be correct."""
    if consistency.unread_before:
        raise TrialError(
            f"{consistency.unread_before} documents could not be read before the step: their writes cannot be verified"
        )
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


@dataclass(frozen=True)
class CheckedConsistency:
    """The findings of all processes together. `per_ms` counts operations without errors by millisecond."""

    documents: int  # documents read at the end, without failed reads
    unread_before: int  # documents whose read failed when the load began
    missing_before: int  # documents that were missing when the load began
    lost: int
    foreign: int  # documents that another client wrote
    not_my_vbucket: int
    broken_off: int
    maps: int
    per_ms: tuple[int, ...]


def parse_checked_consistency(texts: Mapping[str, str]) -> CheckedConsistency:
    """Add the reports of all processes, by file name. Raises TrialError, which names the file and the problem."""
    parts = [_parse(json.loads(text), name) for name, text in texts.items()]
    return CheckedConsistency(
        documents=sum(part.documents for part in parts),
        unread_before=sum(part.unread_before for part in parts),
        missing_before=sum(part.missing_before for part in parts),
        lost=sum(part.lost for part in parts),
        foreign=sum(part.foreign for part in parts),
        not_my_vbucket=sum(part.not_my_vbucket for part in parts),
        broken_off=sum(part.broken_off for part in parts),
        maps=max(part.maps for part in parts),
        per_ms=tuple(
            sum(counts) for counts in zip_longest(*(part.per_ms for part in parts), fillvalue=0)
        ),
    )


def _parse(document: Mapping[str, Any], name: str) -> CheckedConsistency:
    try:
        learn, mix, check = document["learn"], document["access"], document["check"]
        return CheckedConsistency(
            documents=int(check["documents"]) - _errors(check),
            unread_before=_errors(learn),
            missing_before=int(learn["absent"]),
            lost=int(mix["lost"]) + int(check["lost"]),
            foreign=int(mix["foreign"]) + int(check["foreign"]),
            not_my_vbucket=int(mix["not_my_vbucket"]),
            broken_off=int(mix["broken_off"]),
            maps=int(mix["maps"]),
            per_ms=tuple(int(count) for count in mix["per_ms"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialError(f"{name}: not a report of a consistency checker ({error!r})") from None


def _errors(phase: Mapping[str, Any]) -> int:
    return sum(int(count) for count in phase["errors"].values())


def step_metrics(
    per_ms: Sequence[int], ramp: float, began: float, ended: float, end: float
) -> dict[str, float]:
    """Return throughput before, during and after the step, and the longest time without service since it began.

    Times are seconds since the mixed phase began; `end` is its end.
    """
    first, start, stop, last = (round(at * 1000) for at in (ramp, began, ended, end))
    if not first < start < stop < last:
        raise TrialError(
            f"the step from {began:.3f} to {ended:.3f} s is not inside the load from {ramp:g} to {end:.3f} s"
        )
    counts = [*per_ms[:last], *[0] * (last - len(per_ms))]
    return {
        "ops_per_s": _rate(counts[first:]),
        "ops_per_s_before": _rate(counts[first:start]),
        "ops_per_s_during": _rate(counts[start:stop]),
        "ops_per_s_after": _rate(counts[stop:]),
        "step_s": ended - began,
        "service_gap_ms": float(longest_gap(counts[start:])),
    }


def longest_gap(counts: Sequence[int]) -> int:
    """Return the length of the longest run of zeros."""
    longest = run = 0
    for count in counts:
        run = 0 if count else run + 1
        longest = max(longest, run)
    return longest


def _rate(counts: Sequence[int]) -> float:
    return 1000.0 * sum(counts) / len(counts)
