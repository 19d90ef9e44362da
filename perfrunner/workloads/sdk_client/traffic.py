"""Count the operations of a phase and record their latencies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

LINEAR_BITS = 11  # of a histogram: 2048 linear values, then 1024 buckets per doubling
MOST_NS = (1 << 40) - 1


def bucket(value: int) -> int:
    """Return the largest value in the bucket of `value`; the layout is that of engine_src/load/core/histogram.h."""
    value = min(value, MOST_NS)
    shift = value.bit_length() - LINEAR_BITS
    return value if shift <= 0 else (((value >> shift) + 1) << shift) - 1


@dataclass
class Histogram:
    """A histogram of latencies in ns."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    highest: int = 0

    def record(self, value: int) -> None:
        self.counts[bucket(value)] += 1
        self.total += value
        self.highest = max(self.highest, value)

    def report(self) -> dict[str, object]:
        count = sum(self.counts.values())
        return {
            "count": count,
            "mean": self.total / count if count else 0.0,
            "max": self.highest,
            "buckets": sorted(self.counts.items()),
        }


@dataclass
class Traffic:
    """The counters of a phase of reads and writes. `ops` includes failed operations."""

    seconds: float = 0.0
    gets: int = 0
    sets: int = 0
    misses: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    per_second: list[int] = field(default_factory=list)
    get_ns: Histogram = field(default_factory=Histogram)
    set_ns: Histogram = field(default_factory=Histogram)

    @property
    def ops(self) -> int:
        return self.gets + self.sets

    def ended(self, second: int) -> None:
        """Count an operation that ended in this second (from 0) of the phase, including its last instant."""
        self.per_second.extend([0] * (second + 1 - len(self.per_second)))
        self.per_second[second] += 1

    def report(self) -> dict[str, object]:
        whole = int(self.seconds)
        ends = [float(second) for second in range(1, whole + 1)]
        if self.seconds > whole:
            ends.append(self.seconds)
        counts = self.per_second + [0] * (len(ends) - len(self.per_second))
        return {
            "ops": self.ops,
            "gets": self.gets,
            "sets": self.sets,
            "misses": self.misses,
            "errors": dict(self.errors),
            "seconds": self.seconds,
            "series": [{"t": t, "ops": n} for t, n in zip(ends, counts, strict=True)],
            "latency_ns": {"get": self.get_ns.report(), "set": self.set_ns.report()},
        }
