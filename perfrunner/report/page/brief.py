"""What came out, an arm a line: for a telephone, where the sentences of many arms would take the first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.numbers import LARGE_RATIO, MARKS, TIMES_SIGN, decimals, factor, signed
from perfrunner.report.selection import primary_rows
from perfrunner.report.sentences import ORDER, noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis import Row
    from perfrunner.report.model import Report

Verdicts = list[tuple[str, str, str]]  # class, mark, words


def brief(report: Report) -> tuple[list[str], list[tuple[str, int, list[tuple[str, Verdicts]]]]]:
    """(the metrics, (arm, its place, of each metric the span of its changes and the verdicts) of each arm)."""
    metrics = primary_rows(report)
    firsts = [next(iter(cells.values()))[0] for cells in metrics.values()]
    names = [
        f"{noun(row.metric).replace('fragmentation', 'frag.')}, {_unit(row)}" for row in firsts
    ]
    lines = []
    for place, variant in enumerate(report.comparison.variants[1:], 1):
        its = [
            [row for rows in cells.values() for row in rows if row.variant == variant]
            for cells in metrics.values()
        ]
        if any(row.effect is not None for rows in its for row in rows):
            lines.append((variant, place, [(_span(rows), _verdicts(rows)) for rows in its]))
    return names, lines


def _span(rows: Sequence[Row]) -> str:
    """Over the cells, in as many digits as the narrowest of their intervals deserves."""
    effects = [row.effect for row in rows if row.effect is not None]
    if not effects:
        return ""
    values = [effect.estimate for effect in effects]
    low, high = min(values), max(values)
    ratio = effects[0].kind == "ratio"
    if ratio and (high > LARGE_RATIO or low < 1 / LARGE_RATIO):
        ends = [f"{TIMES_SIGN}{factor(value)}" for value in (low, high)]
        return "…".join(dict.fromkeys(ends))
    scale = 100.0 if ratio else 1.0
    halves = [scale * (e.ci95[1] - e.ci95[0]) / 2 for e in effects if e.ci95 is not None]
    places = min(1, decimals(max(halves))) if halves else 1
    ends = [signed(scale * (value - effects[0].neutral), places) for value in (low, high)]
    return "…".join(dict.fromkeys(ends))


def _unit(row: Row) -> str:
    """Of a change, where it is not a large factor."""
    if row.metric.effect == "ratio":
        return "%"
    return "points" if row.metric.unit == "%" else row.metric.unit


def _verdicts(rows: Sequence[Row]) -> Verdicts:
    """Each once, the clearest first."""
    verdicts = sorted({row.verdict for row in rows if row.verdict is not None}, key=ORDER.index)
    return [(verdict, MARKS[verdict], verdict) for verdict in verdicts]
