"""Whether a trial that ran to its end counts: rules fixed before the run, none of which looks at a compared metric."""

from __future__ import annotations

from collections.abc import Mapping

from perfrunner.cluster import STABLE_FACTS
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
    busy = None if report is None else report.client.busiest_thread_busy
    if busy is not None and busy > limits.client_busy:
        reasons.append(
            f"the load client is saturated: its busiest thread is {busy:.0%} busy "
            f"(limit {limits.client_busy:.0%})"
        )
    if measured.check is not None and not measured.check.agrees:
        reasons.append(str(measured.check))
    return reasons


def changed_facts(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Host facts that must hold still during an experiment (STABLE_FACTS) and did not."""
    return [
        f"{key} changed from {before[key]} to {now[key]}"
        for key in sorted(before.keys() & now.keys() & set(STABLE_FACTS))
        if before[key] != now[key]
    ]
