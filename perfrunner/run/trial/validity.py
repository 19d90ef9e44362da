"""Whether a trial that ran to its end counts: rules fixed before the run, none of which looks at a compared metric.

Nor at the arm. How busy the load client is follows from how fast the engine answers: a rule that repeats blocks with a
busy client keeps the slow moments of the faster arm. So a saturated client makes no trial void; it is judged over all
trials of a cell (analysis/saturation.py). How long the client waited for a CPU is the host's doing; it is taken over
all arms of an ensemble together, and makes all of them void or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfrunner.cluster import STABLE_FACTS
from perfrunner.measure.turns import WAITS_FACT
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured


def void_reasons(measured: Measured, limits: Limits) -> list[str]:
    """Empty when the trial counts."""
    reasons = []
    report = measured.report
    phases = [] if report is None else [p for p in (report.prepare, report.drive) if p is not None]
    misses = sum(phase.misses for phase in phases)
    if misses > limits.misses:
        reasons.append(f"{misses} misses (limit {limits.misses})")
    errors: dict[str, int] = {}
    for phase in phases:
        for kind, count in phase.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    total = sum(errors.values())
    if total > limits.errors:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()) if count)
        reasons.append(f"{total} errors (limit {limits.errors}): {kinds}")
    if measured.check is not None and not measured.check.agrees:
        reasons.append(str(measured.check))
    return reasons


def ensemble_reasons(arms: Sequence[Measured], limits: Limits) -> list[str]:
    """What makes all trials of a unit void; empty when they count, or where nothing tells."""
    shares = [arm.facts.get(WAITS_FACT) for arm in arms]
    told = [share for share in shares if isinstance(share, float)]
    if len(told) < len(arms) or not told:
        return []
    waits = sum(told) / len(told)
    if waits <= limits.client_waits:
        return []
    limit = f"limit {limits.client_waits:.0%}"
    return [
        f"the host is busy: the load waited for a CPU in {waits:.0%} of all arms' slices ({limit})"
    ]


def changed_facts(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Host facts that must hold still during an experiment (STABLE_FACTS) and did not."""
    return [
        f"{key} changed from {before[key]} to {now[key]}"
        for key in sorted(before.keys() & now.keys() & set(STABLE_FACTS))
        if before[key] != now[key]
    ]
