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
    from perfrunner.spec.expectations import (
        PublishedRow,
        PublishedTable,
        PublishedValue,
        PublishedValues,
    )
    from perfrunner.spec.metrics import MetricType

Agreement: TypeAlias = Literal["agrees", "disagrees", "cannot tell"]
Likeness: TypeAlias = Literal["same size", "same direction", "disagrees", "cannot tell"]

ALIKE = 0.25  # of a published effect: the measured one is of the same size if it differs by less
LARGER, SMALLER = "the measured effect is larger", "the measured effect is smaller"


@dataclass(frozen=True)
class Published:
    """A published value in the metric's unit, with the sample size and spread that were stated."""

    value: float
    n: int | None
    spread: str


@dataclass(frozen=True)
class PublishedLine:
    """A variant in a row of a table of published values.

    `measured` is None if the run did not measure it. `effect` is the published effect against the baseline, of
    the metric's kind. `agreement` is None for the baseline and if there is no published effect. `size`
    compares the sizes of two effects that move the same way.
    """

    table: str
    label: str
    case: Case
    metric: MetricType
    variant: str
    published: Published
    published_baseline: Published | None
    effect: float | None
    measured: Row | None
    measured_baseline: Row | None
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
    names = (m for m in row.metric if comparison.row(case, m, baseline) is not None)
    metric = metric_type(next(names, row.metric[-1]))
    base = row.values.get(baseline)
    for variant, value in row.values.items():
        measured = comparison.row(case, metric.id, variant)
        effect = None if base is None or variant == baseline else _effect(metric, value, base)
        agreement, why = (None, "") if effect is None else _judge(effect, measured)
        yield PublishedLine(
            table=table.title,
            label=row.label or metric.id,
            case=case,
            metric=metric,
            variant=variant,
            published=_published(value, table),
            published_baseline=None if base is None else _published(base, table),
            effect=effect,
            measured=measured,
            measured_baseline=comparison.row(case, metric.id, baseline),
            agreement=agreement,
            why=why,
            size=_size(effect, measured) if agreement == "agrees" else "",
        )


def _published(value: PublishedValue, table: PublishedTable) -> Published:
    return Published(value.value, value.n or table.n, value.spread or table.spread)


def _effect(metric: MetricType, value: PublishedValue, base: PublishedValue) -> float | None:
    if metric.effect == "difference":
        return value.value - base.value
    return value.value / base.value if base.value > 0 and value.value > 0 else None


def _judge(published: float, measured: Row | None) -> tuple[Agreement, str]:
    if measured is None:
        return "cannot tell", "not measured in this run"
    effect = measured.effect
    if effect is None or effect.ci95 is None or measured.verdict == "not comparable":
        return "cannot tell", measured.reason or "the measured effect has no interval"
    if effect.n < MIN_BLOCKS:
        return "cannot tell", f"{effect.n} blocks are too few for a verdict"
    zone = _zone(effect)
    within = zone[0] <= effect.ci95[0] and effect.ci95[1] <= zone[1]
    if _still(published, effect):
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
    way = _way(measured, effect)
    if way == 0:
        low, high = effect.ci95
        excluded = "" if low <= published <= high else "; it excludes the published effect"
        return "cannot tell", f"the interval is too wide for a direction{excluded}"
    if (published > effect.neutral) == (way > 0):
        return "agrees", "the same direction"
    return "disagrees", "the other direction"


def _way(measured: Row, effect: Effect) -> int:
    """Return +1 for up, -1 for down and 0 if neither is certain.

    A metric without a direction has no verdict; its interval decides.
    """
    low, high = effect.ci95 or (effect.estimate, effect.estimate)
    if measured.verdict is None and measured.metric.direction == "none":
        moved = low > effect.neutral or high < effect.neutral
    else:
        moved = measured.verdict in ("better", "worse")
    return 0 if not moved else (1 if effect.estimate > effect.neutral else -1)


def _still(published: float, effect: Effect) -> bool:
    low, high = _zone(effect)
    return low <= published <= high


def _zone(effect: Effect) -> Interval:
    margin = effect.margin
    return (1 / (1 + margin), 1 + margin) if effect.kind == "ratio" else (-margin, margin)


def _alike(published: float, effect: Effect) -> bool:
    """Return whether the two effects differ by at most ALIKE of the published one, on the scale of the estimate."""
    if effect.kind == "ratio":
        return abs(math.log(effect.estimate / published)) <= ALIKE * abs(math.log(published))
    return abs(effect.estimate - published) <= ALIKE * abs(published)


def _size(published: float | None, measured: Row | None) -> str:
    """Say how the sizes of two agreeing effects compare.

    Empty if neither moves, because then no effect is larger.
    """
    if (
        published is None
        or measured is None
        or measured.effect is None
        or measured.effect.ci95 is None
    ):
        return ""
    if _still(published, measured.effect):
        return ""
    low, high = measured.effect.ci95
    if low <= published <= high:
        return "the published effect is inside the measured interval"
    if _alike(published, measured.effect):
        return f"within {100 * ALIKE:.0f} % of the published effect"
    falls = published < measured.effect.neutral
    larger = high < published if falls else low > published
    return LARGER if larger else SMALLER
