"""Define the results of an analysis: summaries, effects, verdicts and rows.

Each case, metric and variant has a summary and, against the baseline, an effect. A missing number is None and
has a stated reason; it is never 0 or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.domain import Case, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.account import Account
    from perfrunner.spec.metrics import MetricType

EffectKind: TypeAlias = Literal["ratio", "difference"]
Interval: TypeAlias = tuple[float, float]

ALPHA = 0.05
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """A variant's trials in a case. `values` maps a block to its value, in the metric's unit."""

    values: dict[int, float]
    mean: float
    sd: float | None  # of a sample; None for a single trial
    cv: float | None  # sd / |mean|; None if undefined
    minimum: float
    maximum: float
    ci95: Interval | None
    outliers: tuple[int, ...] = ()  # blocks beyond the Tukey fences: flagged, never dropped

    @property
    def n(self) -> int:
        """The number of blocks with a value."""
        return len(self.values)

    @property
    def max_deviation(self) -> float:
        """The largest distance of a trial from the mean, in the metric's unit."""
        return max(self.maximum - self.mean, self.mean - self.minimum)

    @property
    def half_width(self) -> float | None:
        """Return the distance of the mean to the farther end of its interval; None without an interval.

        Half of the width, but for counts of events: without an event the interval begins at the mean.
        """
        if self.ci95 is None:
            return None
        return max(self.ci95[1] - self.mean, self.mean - self.ci95[0])


@dataclass(frozen=True)
class Effect:
    """A variant compared with the baseline.

    `ci95` holds with 95 %, also if the run is looked at more than once: `level` is what a single test of this look may
    spend (analysis/looks.py), and the interval is the t interval of confidence 1 - level.

    A ratio is variant / baseline (1 = no change), a difference is variant - baseline in the
    metric's unit (0 = no change). `p` tests against the nearest change within the resolution. `t` is
    None where the trials do not spread at all.
    """

    kind: EffectKind
    baseline: str
    n: int  # blocks that hold both variants; for an unpaired effect the trials of the smaller side
    estimate: float
    ci95: Interval | None
    p: float | None
    t: float | None
    sd: float | None  # of the paired differences (for a ratio, of their logarithms)
    wilcoxon_p: float | None
    margin: float  # a share for a ratio, the metric's unit for a difference
    paired: bool = True
    q: float | None = None
    resolution: float = 0.0  # as the margin; no change up to it is a difference
    level: float = ALPHA

    @property
    def neutral(self) -> float:
        """The estimate that means no change."""
        return 1.0 if self.kind == "ratio" else 0.0


@dataclass(frozen=True)
class Row:
    """A row of a report. The baseline's own row has no effect.

    `verdict` is None for the baseline, for a metric without a direction, where there are too few
    blocks and where trials are too short; `reason` says why, and why a row is not comparable.
    `more_blocks` is set for *unsure* only, and so is `decides`: the smallest change that a run with that number of
    further blocks finds with probability 0.8 (a share for a ratio, else in the metric's unit).
    """

    case: Case
    metric: MetricType
    variant: str
    build_id: str
    summary: Summary
    effect: Effect | None
    primary: bool
    verdict: Verdict | None
    small: bool = False  # better or worse, but by no more than the margin
    checked: bool = True  # every setting of both variants was checked (domain.unchecked)
    more_blocks: int | None = None
    decides: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    companion: bool = False  # the total CPU that is judged next to a primary throughput
    cpu: str = ""  # of throughput: how the total CPU disagrees with it (account.disagreement)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return short remarks that stand next to the verdict."""
        given = {"small": self.small, self.cpu: bool(self.cpu), "not checked": not self.checked}
        return tuple(mark for mark, holds in given.items() if holds)

    @property
    def qualifier(self) -> str:
        """The marks in the form that follows the verdict: ` (small, not checked)`; empty without marks."""
        return f" ({', '.join(self.marks)})" if self.marks else ""


@dataclass(frozen=True)
class DiscardedTrial:
    """A trial that a rule fixed in advance excluded, together with its case's whole block."""

    block: int
    attempt: int
    case: Case
    variant: str
    status: Literal["discarded", "failed"]
    reason: str


@dataclass(frozen=True)
class Comparison:
    """All rows in the order of the spec: by case, then metric (primary first), then variant."""

    baseline: str
    variants: tuple[str, ...]
    cases: tuple[Case, ...]
    rows: tuple[Row, ...]
    discarded: tuple[DiscardedTrial, ...]
    blocks: int  # largest number of blocks of any case
    tests: int  # number of tests that the correction for multiple testing covers
    paired: bool = True
    warnings: tuple[str, ...] = field(default=())
    # By case, then variant; of interleaved trials with CPU clocks.
    accounts: tuple[Account, ...] = ()

    def row(self, case: Case, metric_id: str, variant: str) -> Row | None:
        """Return a row by its position; None if that variant has no such metric."""
        return self._by_variant.get((case, variant), {}).get(metric_id)

    def variant(self, case: Case, variant: str) -> Iterable[Row]:
        """Return the rows of all metrics of a variant in a case."""
        return self._by_variant.get((case, variant), {}).values()

    @cached_property
    def _by_variant(self) -> dict[tuple[Case, str], dict[str, Row]]:
        rows: dict[tuple[Case, str], dict[str, Row]] = {}
        for row in self.rows:
            rows.setdefault((row.case, row.variant), {}).setdefault(row.metric.id, row)
        return rows
