"""What `witness` found out while its cluster changed, and the figures of the step.

It counts what was completed in each millisecond since its mixed phase began. Throughput and the longest gap follow from
that and from when the step was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from perfrunner.errors import TrialError


@dataclass(frozen=True)
class Witnessed:
    """Of all processes together. `per_ms`: operations without an error, by millisecond of the mixed phase."""

    documents: int  # that were read at the end
    missing_before: int  # documents that were not there when the load began
    lost: int
    foreign: int  # documents that somebody else wrote
    not_my_vbucket: int
    broken_off: int
    maps: int
    per_ms: tuple[int, ...]


def parse_witnessed(texts: Mapping[str, str]) -> Witnessed:
    """What each process printed, by file name. TrialError names the file and what is wrong in it."""
    parts = [_one(json.loads(text), name) for name, text in texts.items()]
    return Witnessed(
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


def _one(document: Mapping[str, Any], name: str) -> Witnessed:
    try:
        learn, mix, check = document["learn"], document["access"], document["check"]
        return Witnessed(
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
        raise TrialError(f"{name}: no report of a witness ({error!r})") from None


def step_metrics(
    per_ms: Sequence[int], ramp: float, began: float, ended: float, end: float
) -> dict[str, float]:
    """Throughput before, during and after the step, and the longest time without service since it began.

    Instants are seconds since the mixed phase began; `end` is when it was over.
    """
    first, start, stop, last = (round(at * 1000) for at in (ramp, began, ended, end))
    if not first < start < stop < last:
        raise TrialError(
            f"the step was from {began:.3f} to {ended:.3f} s of a load from {ramp:g} to {end:.3f} s"
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
    """The longest run of zeros."""
    longest = run = 0
    for count in counts:
        run = 0 if count else run + 1
        longest = max(longest, run)
    return longest


def _rate(counts: Sequence[int]) -> float:
    return 1000.0 * sum(counts) / len(counts)
