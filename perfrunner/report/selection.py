"""Which metrics a short table shows: the primary ones, fragmentation, and whatever changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfrunner.analysis import Cell, Row
    from perfrunner.report.model import Report

SHOWN_ALWAYS = (
    "fragmentation_mapped",
    "fragmentation_rss",
    "fragmentation_rss_now",
    "fragmentation_rss_settled",
    "fragmentation_payload_rss",
)
SHOWN_VERDICTS = ("better", "worse", "invalid")


def primary_rows(report: Report) -> dict[str, dict[Cell, list[Row]]]:
    """Metric -> cell -> its rows: of the primary metrics; of all where none of them was measured."""
    rows = [row for row in report.comparison.rows if row.primary] or report.comparison.rows
    found: dict[str, dict[Cell, list[Row]]] = {}
    for row in rows:
        found.setdefault(row.metric.id, {}).setdefault(row.cell, []).append(row)
    return found


def selected(report: Report, cell: Cell, *, every: bool) -> tuple[dict[str, list[Row]], int]:
    """The cell's rows by metric, and how many metrics were left out."""
    rows = report.rows(cell)
    if every or not any(_matters(group) for group in rows.values()):
        return rows, 0
    shown = {metric: group for metric, group in rows.items() if _matters(group)}
    return shown, len(rows) - len(shown)


def _matters(rows: list[Row]) -> bool:
    first = rows[0]
    return (
        first.primary
        or first.metric.id in SHOWN_ALWAYS
        or any(row.verdict in SHOWN_VERDICTS for row in rows)
    )
