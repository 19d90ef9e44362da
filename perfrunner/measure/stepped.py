"""Compute the metrics of a cluster step from the reports of the consistency checker.

It counts the operations completed in each millisecond since its mixed phase began. Throughput and the longest
gap follow from these counts and the time of the step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from perfrunner.errors import TrialError


@dataclass(frozen=True)
class CheckedConsistency:
    """The findings of all processes together. `per_ms` counts operations without errors by millisecond."""

    documents: int  # documents read at the end
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
            documents=int(check["documents"]),
            missing_before=int(learn["absent"]),
            lost=int(mix["lost"]) + int(check["lost"]),
            foreign=int(mix["foreign"]) + int(check["foreign"]),
            not_my_vbucket=int(mix["not_my_vbucket"]),
            broken_off=int(mix["broken_off"]),
            maps=int(mix["maps"]),
            per_ms=tuple(int(count) for count in mix["per_ms"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TrialError(f"{name}: not a report of a consistency checker ({error!r})") from None


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
