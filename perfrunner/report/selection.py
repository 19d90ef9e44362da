"""Select the metrics of a short table: primary metrics, fragmentation, and metrics that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfrunner.analysis import Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report

SHOWN_ALWAYS = (
    "fragmentation_mapped",
    "fragmentation_rss",
    "fragmentation_rss_now",
    "fragmentation_rss_settled",
    "fragmentation_payload_rss",
)
SHOWN_VERDICTS = ("better", "worse", "not comparable")


def primary_rows(report: Report) -> dict[str, dict[Case, list[Row]]]:
    """Return rows by metric and case: of the primary metrics, or of all if no primary one was measured."""
    rows = [row for row in report.comparison.rows if row.primary] or report.comparison.rows
    by_metric: dict[str, dict[Case, list[Row]]] = {}
    for row in rows:
        by_metric.setdefault(row.metric.id, {}).setdefault(row.case, []).append(row)
    return by_metric


def selected(report: Report, case: Case, *, every: bool) -> tuple[dict[str, list[Row]], int]:
    """Return a case's rows by metric, and the number of metrics left out."""
    rows = report.rows(case)
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
