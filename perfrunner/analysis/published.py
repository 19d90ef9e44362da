"""Compare the measured results with the published values of a spec: both effects, and whether they agree.

The published effect is computed from the two published values; it has no interval, because most were
published without one. The measured effect is that of the row, with its interval. They agree in direction, or
disagree, or the measured interval is too wide to tell:

  * the published effect exceeds the margin: the measured one agrees if it moves the same way (better or worse by the
    rules of a verdict, and not small), and disagrees if it moves the other way or its whole interval is within the
    margin;
  * the published effect stays within the margin: the measured one agrees if its interval does, and disagrees if its
    interval lies outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.domain import MIN_BLOCKS, NO_BUCKET, Case
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.analysis.model import Comparison, Effect, Interval, Row
    from perfrunner.spec.metrics import MetricType
    from perfrunner.spec.published import (
        PublishedRow,
        PublishedTable,
        PublishedValue,
        PublishedValues,
    )

Agreement: TypeAlias = Literal["agrees", "disagrees", "cannot tell"]
Likeness: TypeAlias = Literal["same size", "same direction", "disagrees", "cannot tell"]

ALIKE = 0.25  # of a published effect: the measured one is of the same size if it differs by less
LARGER, SMALLER = "the measured effect is larger", "the measured effect is smaller"


@dataclass(frozen=True)
class Theirs:
    """A published value in the metric's unit, with the sample size and spread that were stated."""

    value: float
    n: int | None
    spread: str


@dataclass(frozen=True)
class PublishedLine:
    """A variant in a row of a table of published values.

    `ours` is None if the run did not measure it. `effect` is the published effect against the baseline, of
    the metric's kind. `agreement` is None for the baseline and if there is no published effect. `size`
    compares the sizes of two effects that move the same way.
    """

    table: str
    label: str
    case: Case
    metric: MetricType
    variant: str
    theirs: Theirs
    theirs_baseline: Theirs | None
    effect: float | None
    ours: Row | None
    ours_baseline: Row | None
    agreement: Agreement | None
    why: str = ""
    size: str = ""

    @property
    def likeness(self) -> Likeness | None:
        """Return how alike the two effects are: *same size* unless the measured one is clearly larger or smaller."""
        if self.agreement != "agrees":
            return self.agreement
        return "same direction" if self.size in (LARGER, SMALLER) else "same size"


def published_lines(
    published: PublishedValues, comparison: Comparison
) -> tuple[PublishedLine, ...]:
    """Compare every published value with the run, in the order of the spec."""
    return tuple(
        line
        for table in published.tables
        for row in table.rows
        for line in _lines(table, row, comparison)
    )


def _lines(
    table: PublishedTable, row: PublishedRow, comparison: Comparison
) -> Iterator[PublishedLine]:
    workload, bucket = table.place(row)
    case = Case(workload, bucket or NO_BUCKET)
    baseline = comparison.baseline
    measured = (m for m in row.metric if comparison.row(case, m, baseline) is not None)
    metric = metric_type(next(measured, row.metric[-1]))
    base = row.values.get(baseline)
    for variant, value in row.values.items():
        ours = comparison.row(case, metric.id, variant)
        effect = None if base is None or variant == baseline else _effect(metric, value, base)
        agreement, why = (None, "") if effect is None else _judge(effect, ours)
        yield PublishedLine(
            table=table.title,
            label=row.label or metric.id,
            case=case,
            metric=metric,
            variant=variant,
            theirs=_theirs(value, table),
            theirs_baseline=None if base is None else _theirs(base, table),
            effect=effect,
            ours=ours,
            ours_baseline=comparison.row(case, metric.id, baseline),
            agreement=agreement,
            why=why,
            size=_size(effect, ours) if agreement == "agrees" else "",
        )


def _theirs(value: PublishedValue, table: PublishedTable) -> Theirs:
    return Theirs(value.value, value.n or table.n, value.spread or table.spread)


def _effect(metric: MetricType, value: PublishedValue, base: PublishedValue) -> float | None:
    if metric.effect == "difference":
        return value.value - base.value
    return value.value / base.value if base.value > 0 and value.value > 0 else None


def _judge(theirs: float, ours: Row | None) -> tuple[Agreement, str]:
    if ours is None:
        return "cannot tell", "not measured in this run"
    effect = ours.effect
    if effect is None or effect.ci95 is None or ours.verdict == "not comparable":
        return "cannot tell", ours.reason or "the measured effect has no interval"
    if effect.n < MIN_BLOCKS:
        return "cannot tell", f"{effect.n} blocks are too few for a verdict"
    zone = _zone(effect)
    within = zone[0] <= effect.ci95[0] and effect.ci95[1] <= zone[1]
    if _still(theirs, effect):
        if within:
            return "agrees", "both stay within the margin"
        outside = effect.ci95[0] > zone[1] or effect.ci95[1] < zone[0]
        if outside:
            return (
                "disagrees",
                "the published effect stays within the margin, the measured one does not",
            )
        return (
            "cannot tell",
            "the published effect stays within the margin, the measured one may not",
        )
    if within:  # a *small* verdict is certain of its direction, but is not a move
        return "disagrees", "the measured effect stays within the margin"
    way = _way(ours, effect)
    if way == 0:
        low, high = effect.ci95
        excluded = "" if low <= theirs <= high else "; it excludes the published effect"
        return "cannot tell", f"the interval is too wide for a direction{excluded}"
    if (theirs > effect.neutral) == (way > 0):
        return "agrees", "the same direction"
    return "disagrees", "the other direction"


def _way(ours: Row, effect: Effect) -> int:
    """Return +1 for up, -1 for down and 0 if neither is certain.

    A metric without a direction has no verdict; its interval decides.
    """
    low, high = effect.ci95 or (effect.estimate, effect.estimate)
    if ours.verdict is None and ours.metric.direction == "none":
        moved = low > effect.neutral or high < effect.neutral
    else:
        moved = ours.verdict in ("better", "worse")
    return 0 if not moved else (1 if effect.estimate > effect.neutral else -1)


def _still(theirs: float, effect: Effect) -> bool:
    low, high = _zone(effect)
    return low <= theirs <= high


def _zone(effect: Effect) -> Interval:
    margin = effect.margin
    return (1 / (1 + margin), 1 + margin) if effect.kind == "ratio" else (-margin, margin)


def _alike(theirs: float, effect: Effect) -> bool:
    """Return whether the two effects differ by at most ALIKE of the published one, on the scale of the estimate."""
    sizes = (theirs, effect.estimate)
    published, measured = map(math.log, sizes) if effect.kind == "ratio" else sizes
    return abs(measured - published) <= ALIKE * abs(published)


def _size(theirs: float | None, ours: Row | None) -> str:
    """Say how the sizes of two agreeing effects compare.

    Empty if neither moves, because then no effect is larger.
    """
    if theirs is None or ours is None or ours.effect is None or ours.effect.ci95 is None:
        return ""
    if _still(theirs, ours.effect):
        return ""
    low, high = ours.effect.ci95
    if low <= theirs <= high:
        return "the published effect is inside the measured interval"
    if _alike(theirs, ours.effect):
        return f"within {100 * ALIKE:.0f} % of the published effect"
    falls = theirs < ours.effect.neutral
    larger = high < theirs if falls else low > theirs
    return LARGER if larger else SMALLER
