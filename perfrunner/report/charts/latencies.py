"""Latencies as charts need them: the histograms of an arm's trials added up, as a percentile curve and as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfrunner.measure.histogram import Histogram, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfrunner.analysis import Cell
    from perfrunner.results.raw import Inside

PERCENTILES = sorted({*range(2, 99, 2), *(100 - 10 ** -(n / 8) for n in range(-8, 17)), 50, 90, 99})
BARS_A_DECADE = 24

Curve = list[tuple[float, float]]


class Latencies(NamedTuple):
    """Of one operation on one arm: `curve` is (percentile, µs), `bars` (µs at the middle, percent of all)."""

    variant: str
    op: str
    operations: int
    curve: Curve
    bars: Curve


def latencies(inside: Sequence[Inside], cell: Cell, variants: Sequence[str]) -> Iterator[Latencies]:
    """By arm, then by operation; percentiles are of all trials' operations together, never averaged."""
    for variant in variants:
        its = [i.latency for i in inside if i.cell == cell and i.trial.variant == variant]
        for op in dict.fromkeys(op for latency in its for op in latency):
            merged = merge(latency[op] for latency in its if op in latency)
            if merged.count:
                curve = [(p, (merged.percentile_ns(p) or 0) / 1000) for p in PERCENTILES]
                yield Latencies(variant, op, merged.count, curve, _bars(merged))


def _bars(histogram: Histogram) -> Curve:
    """On a logarithmic axis, without gaps."""
    upper, counts = np.array(histogram.buckets, dtype=np.float64).T
    places = np.floor(np.log10(np.maximum(upper, 1)) * BARS_A_DECADE).astype(np.int64)
    first = int(places.min())
    shares = 100 * np.bincount(places - first, weights=counts) / histogram.count
    return [
        (10 ** ((place + 0.5) / BARS_A_DECADE) / 1000, float(share))
        for place, share in enumerate(shares, first)
    ]
