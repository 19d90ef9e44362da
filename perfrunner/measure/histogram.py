"""Represent and merge the latency histograms that the clients print.

The load tools count into log-linear buckets with a fixed layout, so buckets of two processes with the same
upper value are the same bucket. Merging adds counts, and a percentile of the merged counts is exact to the
bucket's width (three significant digits). Percentiles are never averaged. Values are in nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from perfrunner.errors import TrialError


@dataclass(frozen=True)
class Histogram:
    """Counts by upper bucket value, ascending. `total_ns` is the exact sum (mean times count)."""

    buckets: tuple[tuple[int, int], ...]
    total_ns: float
    max_ns: int

    @cached_property
    def _running(self) -> tuple[int, ...]:
        """Cumulative counts of the buckets."""
        return tuple(accumulate(n for _, n in self.buckets))

    @property
    def count(self) -> int:
        """The number of values."""
        return self._running[-1] if self._running else 0

    @property
    def mean_ns(self) -> float | None:
        """The mean; None for an empty histogram."""
        return self.total_ns / self.count if self.count else None

    def percentile_ns(self, percent: float) -> int | None:
        """Return the upper value of the bucket that holds the percentile; None for an empty histogram."""
        if not 0 < percent <= 100:
            raise ValueError(f"a percentile is in (0, 100], got {percent}")
        count = self.count
        if not count:
            return None
        # Rounded up: the smallest value that covers `percent` of the counts.
        rank = max(1, -(-count * percent // 100))
        upper = self.buckets[bisect_left(self._running, rank)][0]
        return min(upper, self.max_ns) if self.max_ns else upper

    @staticmethod
    def parse(document: Mapping[str, Any], where: str) -> Histogram:
        """Parse a histogram of a report. Raises TrialError, which names `where`."""
        try:
            buckets = tuple(sorted([(int(upper), int(n)) for upper, n in document["buckets"]]))
            count = int(document["count"])
            mean, highest = float(document["mean"]), int(document["max"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrialError(f"{where}: not a histogram ({error!r})") from None
        counted = sum([n for _, n in buckets])
        if counted != count:
            raise TrialError(f"{where}: the buckets hold {counted} values, but `count` is {count}")
        return Histogram(buckets, mean * count, highest)


EMPTY = Histogram((), 0.0, 0)


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram of all values; the order of the arguments does not matter."""
    counts: Counter[int] = Counter()
    total, highest = 0.0, 0
    for histogram in histograms:
        for upper, n in histogram.buckets:
            counts[upper] += n
        total += histogram.total_ns
        highest = max(highest, histogram.max_ns)
    return Histogram(tuple(sorted(counts.items())), total, highest)
