"""Judge a measured trial: ok, failed or discarded.

The rules that discard a trial are fixed in advance and do not depend on the variant: `discarded_reasons` of the trial
itself, `group_reasons` of its group, and `changed_facts` of the hosts. docs/explanation/statistics.md lists them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfrunner.domain import TrialStatus
from perfrunner.errors import HostError
from perfrunner.hosts import STABLE_FACTS
from perfrunner.hosts.transport import LinkLost, Transport
from perfrunner.measure.turns import WAITS_FACT
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured

PATH = "/proc/pressure/cpu"
_SOME = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Pressure:
    """A reading of CPU pressure: the local monotonic time, and by host the µs in which some task waited, since boot."""

    at: float
    waited_us: dict[str, int]

    def share_since(self, before: Pressure) -> dict[str, float]:
        """Return, by host, the share of the time since `before`; hosts without the figure are omitted."""
        span = 1e6 * (self.at - before.at)
        both = self.waited_us.keys() & before.waited_us.keys()
        return {
            name: round((self.waited_us[name] - before.waited_us[name]) / span, 4)
            for name in sorted(both)
            if span > 0
        }


def read_pressure(hosts: Iterable[Transport]) -> Pressure:
    """Read the CPU pressure of all hosts that report it. Raises LinkLost if a host is unreachable."""
    waited_us = {}
    for host in hosts:
        try:
            text = host.read_text(PATH)
        except LinkLost:
            raise
        except HostError:  # no such file: the kernel has no PSI
            continue
        if match := _SOME.search(text):
            waited_us[host.name] = int(match[1])
    return Pressure(time.monotonic(), waited_us)


def judge(
    measurement: Measured, limits: Limits, common: Sequence[str]
) -> tuple[TrialStatus, str, Measured]:
    """Return the status of a measurement, the reason, and the measurement without non-finite metrics.

    `common` are the reasons to discard all trials of the group.
    """
    metrics = measurement.metrics
    if odd := [name for name, value in metrics.items() if not math.isfinite(value)]:
        finite = {name: value for name, value in metrics.items() if name not in odd}
        text = f"{', '.join(odd)}: not a finite number"
        return ("failed", text, replace(measurement, metrics=finite))
    reasons = [*discarded_reasons(measurement, limits), *common]
    return ("discarded" if reasons else "ok", "; ".join(reasons), measurement)


def discarded_reasons(measured: Measured, limits: Limits) -> list[str]:
    """Return the reasons to discard a trial; empty if it counts."""
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


def group_reasons(variants: Sequence[Measured], limits: Limits) -> list[str]:
    """Return the reasons to discard all trials of a unit; empty if they count or the load reports no waits."""
    reported = [variant.facts.get(WAITS_FACT) for variant in variants]
    shares = [share for share in reported if isinstance(share, float)]
    if len(shares) < len(variants) or not shares:
        return []
    waits = sum(shares) / len(shares)
    if waits <= limits.client_waits:
        return []
    limit = f"limit {limits.client_waits:.0%}"
    return [
        f"the host is busy: the load waited for a CPU in {waits:.0%} of all variants' slices ({limit})"
    ]


def changed_facts(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the changes of host facts that must stay the same during an experiment (STABLE_FACTS)."""
    return [
        f"{key} changed from {before[key]} to {now[key]}"
        for key in sorted(before.keys() & now.keys() & set(STABLE_FACTS))
        if before[key] != now[key]
    ]
