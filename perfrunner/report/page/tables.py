"""The page's tables: a line a metric and arm, that can be sorted and filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import (
    ARROWS,
    change,
    mean_text,
    more_text,
    p_text,
    scale_for,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.selection import selected

if TYPE_CHECKING:
    from perfrunner.analysis import Cell, Row
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}


def tables(report: Report) -> list[dict[str, Any]]:
    """By cell: the rows that matter, and the rest to fold away."""
    return [_cell(report, cell) for cell in report.comparison.cells]


def _cell(report: Report, cell: Cell) -> dict[str, Any]:
    groups = report.rows(cell)
    shown, left_out = selected(report, cell, every=False)
    rest = {metric: rows for metric, rows in groups.items() if metric not in shown}
    parts = [(f"Results of {cell}", "", _table(report, shown))]
    if left_out:
        title = f"{left_out} metrics without a clear change"
        parts.append((f"{title}, {cell}", title, _table(report, rest)))
    return {"cell": str(cell), "index": report.comparison.cells.index(cell), "parts": parts}


def _table(report: Report, groups: dict[str, list[Row]]) -> list[dict[str, Any]]:
    return [
        _line(report, row, scale_for(row, rows), first=index == 0)
        for rows in groups.values()
        for index, row in enumerate(rows)
    ]


def _line(report: Report, row: Row, scale: Scale, *, first: bool) -> dict[str, Any]:
    summary, effect = row.summary, row.effect
    return {
        "first": first,
        "metric": row.metric.id,
        "title": row.metric.title,
        "arrow": ARROWS[row.metric.direction],
        "direction": DIRECTIONS.get(row.metric.direction, "no direction is better"),
        "primary": row.primary,
        "variant": row.variant,
        "arm": report.comparison.variants.index(row.variant),
        "n": summary.n,
        "mean": mean_text(summary, scale),
        "half": spread(summary, row.metric, scale),
        "sd": "" if summary.sd is None else scale.prefixed(summary.sd, 3),
        "cv": "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        "range": scale.span(summary.minimum, summary.maximum),
        "change": "" if effect is None else change(effect, row.metric, scale),
        "p": "" if effect is None or effect.p is None else p_text("", effect.p).lstrip("="),
        "q": "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        "verdict": row.verdict or "none",
        "text": verdict_text(row),
        "remark": ", ".join(text for text in (more_text(row), row.reason) if text),
        "notes": "; ".join(row.notes),
        # to sort by
        "mean_value": repr(summary.mean),
        "change_value": "" if effect is None else repr(effect.estimate),
        "q_value": "" if effect is None or effect.q is None else repr(effect.q),
        "cv_value": "" if summary.cv is None else repr(summary.cv),
    }
