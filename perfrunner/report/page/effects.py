"""Prepare the comparison chart: every change of a metric with its interval and margin, as rows of a table.

The rows are HTML with strips placed in percent, which fit any width, print well and need no script.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import (
    ARROWS,
    MARKS,
    TIMES_SIGN,
    change,
    factor_label,
    factor_steps,
    is_large,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    signed,
    spread,
)
from perfrunner.report.sentences import noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfrunner.analysis.model import Interval, Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report

TICKS = 5
FEWEST_TICKS = 3
NO_CHANGE = ("0", f"{TIMES_SIGN}1")
ROOM = 0.06  # share of the axis beyond the outermost end


@dataclass(frozen=True)
class Axis:
    """The axis of a panel: `low` and `high` in percent, the metric's unit, or log10 of factors."""

    low: float
    high: float
    factors: bool

    def place(self, position: float) -> float:
        """Return a position in percent of the strip, never outside it."""
        share = (position - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks as (place, label)."""
        if self.factors:
            return [
                (self.place(math.log10(f)), factor_label(f))
                for f in factor_steps(10**self.low, 10**self.high)
            ]
        step = nice_step((self.high - self.low) / TICKS)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        values = [n * step for n in range(first, last + 1)]
        return [(self.place(v), signed(v, places) if v else "0") for v in values]


def nice_step(rough: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * 0.999)


def panels(
    report: Report, metrics: Mapping[str, Mapping[Case, Sequence[Row]]]
) -> list[dict[str, Any]]:
    """Return a panel for each metric that has an effect: its axis, and the variants by case."""
    drawn = []
    for metric, cases in metrics.items():
        rows = [row for group in cases.values() for row in group]
        effects = [row for row in rows if row.effect is not None]
        if not effects:
            continue
        axis, unit = _axis(effects)
        first = effects[0]
        drawn.append({
            "metric": metric,
            "title": noun(first.metric),
            "arrow": ARROWS[first.metric.direction],
            "direction": {"higher": "more is better", "lower": "less is better"}.get(first.metric.direction, ""),
            "unit": unit,
            "primary": first.primary,
            "baseline": report.comparison.baseline,
            "longest": max(len(row.variant) for row in effects),
            "ticks": _spared(axis.ticks()),
            "neutral": axis.place(_position(first.effect.neutral if first.effect else 0.0, first, axis)),
            "cases": [
                {"name": str(case), "index": report.comparison.cases.index(case),
                 "base": _baseline(group, report), "rows": list(_lines(group, axis, report))}
                for case, group in cases.items()
            ],
        })  # fmt: skip
    return drawn


def _spared(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str, bool]]:
    """Mark every second tick as left out of narrow panels, but never the tick of no change."""
    labels = [label for _, label in ticks]
    neutral = next((labels.index(none) for none in NO_CHANGE if none in labels), 0)
    return [
        (place, label, len(ticks) > FEWEST_TICKS and (n - neutral) % 2 == 1)
        for n, (place, label) in enumerate(ticks)
    ]


def _axis(rows: Sequence[Row]) -> tuple[Axis, str]:
    effects = [row.effect for row in rows if row.effect is not None]
    ends = [e for effect in effects for e in (effect.estimate, *(effect.ci95 or ()))]
    ratio = effects[0].kind == "ratio"
    factors = is_large(rows)
    plain = Axis(0.0, 1.0, factors)
    places = [_position(e, rows[0], plain) for e in ends]
    places += [_position(bound, row, plain) for row in rows for bound in _margin(row)]
    low, high = min(places), max(places)
    room = ROOM * (high - low or 1.0)
    metric = rows[0].metric
    unit = "%" if ratio else "points" if metric.unit == "%" else _scale(rows).unit
    return Axis(low - room, high + room, factors), "factor, log axis" if factors else unit


def _position(value: float, row: Row, axis: Axis) -> float:
    if axis.factors:
        return math.log10(value)
    if row.effect is not None and row.effect.kind == "ratio":
        return (value - 1) * 100
    return value / (_scale([row]).factor if row.metric.unit != "%" else 1.0)


def _scale(rows: Sequence[Row]) -> Any:
    return scale_of(rows[0].metric, max(abs(row.summary.mean) for row in rows))


def _margin(row: Row) -> Interval:
    effect = row.effect
    assert effect is not None
    if effect.kind == "ratio":
        return 1 / (1 + effect.margin), 1 + effect.margin
    return -effect.margin, effect.margin


def _lines(rows: Sequence[Row], axis: Axis, report: Report) -> Iterable[dict[str, Any]]:
    variants = report.comparison.variants
    floors = {(f.case, f.metric): f for f in report.noise}
    for row in rows:
        effect = row.effect
        if effect is None:
            if row.variant != report.comparison.baseline:
                yield {
                    "variant": row.variant,
                    "index": variants.index(row.variant),
                    "reason": row.reason or "no effect",
                }
            continue
        low, high = effect.ci95 or (effect.estimate, effect.estimate)
        floor = floors.get((row.case, row.metric.id))
        yield {
            "variant": row.variant,
            "index": variants.index(row.variant),
            "reason": "",
            "ci": _span(axis, row, (low, high)),
            "margin": _span(axis, row, _margin(row)),
            "floor": _span(axis, row, _around(effect.neutral, floor.floor, effect.kind)) if floor else None,
            "point": axis.place(_position(effect.estimate, row, axis)),
            "change": change(effect, row.metric, scale_for(row, rows)),
            "verdict": row.verdict or "none",
            "mark": MARKS.get(row.verdict or "", "·"),
            "word": (row.verdict or "no verdict") + row.qualifier,
            "detail": _detail(row),
        }  # fmt: skip


def _around(neutral: float, floor: float, kind: str) -> Interval:
    return (1 / (1 + floor), 1 + floor) if kind == "ratio" else (neutral - floor, neutral + floor)


def _span(axis: Axis, row: Row, ends: Interval) -> dict[str, float]:
    left, right = (axis.place(_position(end, row, axis)) for end in ends)
    return {"left": left, "width": round(right - left, 2)}


def _detail(row: Row) -> str:
    effect = row.effect
    assert effect is not None
    parts = [f"{effect.n} blocks" if effect.paired else "not interleaved"]
    if effect.q is not None:
        parts.append(p_text("q", effect.q))
    if row.verdict == "unsure":
        more = more_text(row)
        parts.append(f"{more} would settle it" if row.more_blocks is not None else more)
    elif row.reason:
        parts.append(row.reason)
    return ", ".join(parts)


def _baseline(rows: Sequence[Row], report: Report) -> str:
    for row in rows:
        if row.variant == report.comparison.baseline:
            scale = scale_for(row, rows)
            return f"{row.variant} {mean_text(row.summary, scale)} {spread(row.summary, row.metric, scale)}"
    return ""
