"""How long the rest is likely to take: the mean duration of each (workload, bucket), times what is left of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from perfrunner.spec.cell import CellName


class EtaEstimator:
    """Seconds. `expected` are guesses from the spec, used for a kind until one of its trials has ended."""

    def __init__(self, expected: Mapping[CellName, float] | None = None) -> None:
        self._expected = dict(expected or {})
        self._seconds: dict[CellName, list[float]] = defaultdict(list)

    def add(self, kind: CellName, seconds: float) -> None:
        self._seconds[kind].append(seconds)

    def mean(self, kind: CellName) -> float | None:
        known = self._seconds.get(kind)
        return sum(known) / len(known) if known else self._expected.get(kind)

    def left(self, kinds: Iterable[CellName]) -> float | None:
        """None when not even one kind of what is left can be estimated."""
        remaining = list(kinds)
        means = [self.mean(kind) for kind in remaining]
        known = [mean for mean in means if mean is not None]
        if remaining and not known:
            return None
        # a kind never yet run is taken for the average of the others
        average = sum(known) / len(known) if known else 0.0
        return sum(average if mean is None else mean for mean in means)
