"""What an analysis yields: for each cell, metric and variant a summary and, against the baseline, an effect.

A missing number is None and has a stated reason; it is never 0 or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from perfrunner.spec.cell import NO_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.spec.metrics import MetricType

Verdict: TypeAlias = Literal["better", "worse", "same", "unsure", "invalid"]
EffectKind: TypeAlias = Literal["ratio", "difference"]
Interval: TypeAlias = tuple[float, float]

ALPHA = 0.05
CONFIDENCE = 0.95
MIN_BLOCKS = 6  # under it a signed-rank test cannot reject at all (5 blocks: p >= 0.0625)


class Cell(NamedTuple):
    """A workload on a bucket type: the circumstances under which variants are compared."""

    workload: str
    bucket: str

    def __str__(self) -> str:
        if self.bucket == NO_BUCKET:
            return self.workload
        return f"{self.workload} · {self.bucket}"


@dataclass(frozen=True)
class Summary:
    """One variant's trials. `values` maps a block to its trial's value; the unit is the metric's."""

    values: dict[int, float]
    mean: float
    sd: float | None  # of a sample; None of a single trial
    cv: float | None  # sd / |mean|; None where that is undefined
    minimum: float
    maximum: float
    ci95: Interval | None
    outliers: tuple[int, ...] = ()  # blocks beyond the Tukey fences: flagged, never dropped

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def max_deviation(self) -> float:
        """The largest distance of a trial from the mean, in the metric's unit."""
        return max(self.maximum - self.mean, self.mean - self.minimum)

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width."""
        return None if self.ci95 is None else (self.ci95[1] - self.ci95[0]) / 2


@dataclass(frozen=True)
class Effect:
    """A variant against the baseline.

    A ratio is variant / baseline (1 = no change), a difference is variant - baseline in the
    metric's unit (0 = no change). `p` tests against the nearest change within the resolution. `t` is
    None where the trials do not spread at all.
    """

    kind: EffectKind
    baseline: str
    n: int  # blocks that hold both; for an unpaired effect the trials of the smaller side
    estimate: float
    ci95: Interval | None
    p: float | None
    t: float | None
    sd: float | None  # of the paired differences (of their logarithms for a ratio)
    wilcoxon_p: float | None
    margin: float  # a share for a ratio, the metric's unit for a difference
    paired: bool = True
    q: float | None = None
    resolution: float = 0.0  # as the margin; no change up to it is a difference

    @property
    def neutral(self) -> float:
        """The estimate that means no change."""
        return 1.0 if self.kind == "ratio" else 0.0


@dataclass(frozen=True)
class Row:
    """One line of a report. The baseline's own row has no effect.

    `verdict` is None for the baseline, for a metric without a direction, where there are too few
    blocks and where trials are too short; `reason` says why, and why a row is invalid.
    `more_blocks` is set for *unsure* only.
    """

    cell: Cell
    metric: MetricType
    variant: str
    build_id: str
    summary: Summary
    effect: Effect | None
    primary: bool
    verdict: Verdict | None
    small: bool = False  # better or worse, but by no more than the margin
    proved: bool = True  # every setting of both arms (spec.unproved)
    more_blocks: int | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """What is to be known beside the verdict, a word or two each."""
        given = {"small": self.small, "not proved": not self.proved}
        return tuple(mark for mark, holds in given.items() if holds)

    @property
    def qualifier(self) -> str:
        """The marks as they follow the verdict: ` (small, not proved)`; empty without any."""
        return f" ({', '.join(self.marks)})" if self.marks else ""


@dataclass(frozen=True)
class VoidTrial:
    """A trial that broke a rule fixed beforehand, and with it its cell's whole block."""

    block: int
    attempt: int
    cell: Cell
    variant: str
    status: Literal["void", "failed"]
    reason: str


@dataclass(frozen=True)
class Comparison:
    """All rows, in the order of the spec: by cell, then metric (primary first), then variant."""

    baseline: str
    variants: tuple[str, ...]
    cells: tuple[Cell, ...]
    rows: tuple[Row, ...]
    voids: tuple[VoidTrial, ...]
    blocks: int  # the most blocks that any cell has
    tests: int  # how many tests the correction for multiple testing is over
    paired: bool = True
    warnings: tuple[str, ...] = field(default=())

    def row(self, cell: Cell, metric_id: str, variant: str) -> Row | None:
        """The row of a place, or None where that variant has no such metric."""
        return self._by_arm.get((cell, variant), {}).get(metric_id)

    def arm(self, cell: Cell, variant: str) -> Iterable[Row]:
        """All metrics of a variant in a cell."""
        return self._by_arm.get((cell, variant), {}).values()

    @cached_property
    def _by_arm(self) -> dict[tuple[Cell, str], dict[str, Row]]:
        found: dict[tuple[Cell, str], dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault((row.cell, row.variant), {}).setdefault(row.metric.id, row)
        return found

    @property
    def verdicts(self) -> tuple[Row, ...]:
        """The rows that have a verdict."""
        return tuple(row for row in self.rows if row.verdict is not None)
