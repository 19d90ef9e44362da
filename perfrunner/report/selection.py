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
