"""Our figures beside those of a spec's `reference:`: both effects, and whether they agree.

The effect of a reference is that of its two values; it has no interval, for most were published without one. Ours is
the row's, with its interval. They agree in direction, or they do not, or ours is too wide to tell:

* theirs moves beyond the margin: ours agrees when it moves the same way (better or worse by the rules of a verdict, and
  not small), disagrees when it moves the other way or its whole interval is within the margin;
* theirs stays within the margin: ours agrees when its interval does, disagrees when its interval lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.model import MIN_BLOCKS, Cell
from perfrunner.spec.cell import NO_BUCKET
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.analysis.model import Comparison, Effect, Interval, Row
    from perfrunner.spec.metrics import MetricType
    from perfrunner.spec.reference import Reference, ReferenceRow, ReferenceTable, ReferenceValue

Agreement: TypeAlias = Literal["agrees", "disagrees", "cannot tell"]


@dataclass(frozen=True)
class Theirs:
    """A published value: in the metric's unit, with what was stated of it."""

    value: float
    n: int | None
    spread: str


@dataclass(frozen=True)
class BesideLine:
    """One variant in one row of a reference table.

    `ours` is None where the run did not measure it. `effect` is that of the published values against the
    baseline, of the metric's kind. `agreement` is None for the baseline, and where there is no published effect.
    `size` compares the sizes of two effects that move the same way.
    """

    table: str
    label: str
    cell: Cell
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


def beside(reference: Reference, comparison: Comparison) -> tuple[BesideLine, ...]:
    """Every published value, in the order of the reference."""
    return tuple(
        line
        for table in reference.tables
        for row in table.rows
        for line in _lines(table, row, comparison)
    )


def _lines(
    table: ReferenceTable, row: ReferenceRow, comparison: Comparison
) -> Iterator[BesideLine]:
    workload, bucket = table.place(row)
    cell = Cell(workload, bucket or NO_BUCKET)
    baseline = comparison.baseline
    measured = (m for m in row.metric if comparison.row(cell, m, baseline) is not None)
    metric = metric_type(next(measured, row.metric[-1]))
    base = row.values.get(baseline)
    for variant, value in row.values.items():
        ours = comparison.row(cell, metric.id, variant)
        effect = None if base is None or variant == baseline else _effect(metric, value, base)
        agreement, why = (None, "") if effect is None else _judge(effect, ours)
        yield BesideLine(
            table=table.title,
            label=row.label or metric.id,
            cell=cell,
            metric=metric,
            variant=variant,
            theirs=_theirs(value, table),
            theirs_baseline=None if base is None else _theirs(base, table),
            effect=effect,
            ours=ours,
            ours_baseline=comparison.row(cell, metric.id, baseline),
            agreement=agreement,
            why=why,
            size=_size(effect, ours) if agreement == "agrees" else "",
        )


def _theirs(value: ReferenceValue, table: ReferenceTable) -> Theirs:
    return Theirs(value.value, value.n or table.n, value.spread or table.spread)


def _effect(metric: MetricType, value: ReferenceValue, base: ReferenceValue) -> float | None:
    if metric.effect == "difference":
        return value.value - base.value
    return value.value / base.value if base.value > 0 and value.value > 0 else None


def _judge(theirs: float, ours: Row | None) -> tuple[Agreement, str]:
    if ours is None:
        return "cannot tell", "not measured in this run"
    effect = ours.effect
    if effect is None or effect.ci95 is None or ours.verdict == "invalid":
        return "cannot tell", ours.reason or "ours has no interval"
    if effect.n < MIN_BLOCKS:
        return "cannot tell", f"{effect.n} blocks are too few for a verdict"
    zone = _zone(effect)
    within = zone[0] <= effect.ci95[0] and effect.ci95[1] <= zone[1]
    if _still(theirs, effect):
        if within:
            return "agrees", "both stay within the margin"
        outside = effect.ci95[0] > zone[1] or effect.ci95[1] < zone[0]
        if outside:
            return "disagrees", "theirs stays within the margin, ours does not"
        return "cannot tell", "theirs stays within the margin, ours may or may not"
    if within:  # a *small* verdict is certain of its direction, and no move
        return "disagrees", "ours stays within the margin"
    way = _way(ours, effect)
    if way == 0:
        low, high = effect.ci95
        excluded = "" if low <= theirs <= high else "; it excludes theirs"
        return "cannot tell", f"the interval is too wide for a direction{excluded}"
    if (theirs > effect.neutral) == (way > 0):
        return "agrees", "the same direction"
    return "disagrees", "the other direction"


def _way(ours: Row, effect: Effect) -> int:
    """+1 up, -1 down, 0 neither for sure. A metric without a good direction has no verdict: its interval decides."""
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


def _size(theirs: float | None, ours: Row | None) -> str:
    """Of two effects that agree: is theirs inside our interval, or ours the larger or the smaller one?

    Empty where neither moves: there is nothing to be larger than.
    """
    if theirs is None or ours is None or ours.effect is None or ours.effect.ci95 is None:
        return ""
    if _still(theirs, ours.effect):
        return ""
    low, high = ours.effect.ci95
    if low <= theirs <= high:
        return "theirs is inside our interval"
    falls = theirs < ours.effect.neutral
    larger = high < theirs if falls else low > theirs
    return "ours is larger" if larger else "ours is smaller"
