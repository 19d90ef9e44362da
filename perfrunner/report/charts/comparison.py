"""Draw the comparison as one picture: throughput and fragmentation of all variants over all cases.

A panel is a metric and has the same line for each variant, with intervals and margins. The picture must be readable
at the width of a page of text and on light and dark pages: it has its own background, and no text below 8 points.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.forest import draw_axis, draw_floor, draw_row, is_large
from perfrunner.report.charts.style import WIDTH, new_figure
from perfrunner.report.numbers import ARROWS, mean_text, scale_of
from perfrunner.report.sentences import question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Comparison, Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report

THROUGHPUT = ("ops_per_s",)
FRAGMENTATION = (
    "fragmentation_payload_rss",
    "fragmentation_rss",
    "fragmentation_payload_mapped",
    "fragmentation_mapped",
)
MOST_METRICS = 6
COLUMNS = 2
LINE, HEAD = 0.24, 1.0  # inches of a variant's line, and around a panel
NAME, TITLE = 22, 42  # characters per line of a variant's name and of a panel's title
SMALLEST = 8.0  # points
SOFT = "#5a616b"

Line = tuple["Case", str]  # a case and a variant; an empty variant is the heading of the case


def comparison_chart(report: Report) -> Figure | None:
    """Draw the chart; None if nothing has an effect with an interval."""
    comparison = report.comparison
    metrics = compared_metrics(comparison)
    if not metrics:
        return None
    pairs = [metrics[n : n + COLUMNS] for n in range(0, len(metrics), COLUMNS)]
    places = [_places(comparison, pair) for pair in pairs]
    heights = [HEAD + sum(map(_height, lines)) for lines in places]
    figure = new_figure(WIDTH, sum(heights))
    columns = len(pairs[0])
    grid = figure.subplots(len(pairs), columns, squeeze=False, sharey="row", height_ratios=heights)
    for line, pair, lines in zip(grid, pairs, places, strict=True):
        for axes, metric in zip(line, pair, strict=False):
            _panel(axes, report, _rows(comparison, metric), lines)
        for spare in line[len(pair) :]:
            spare.set_visible(False)
        _names(line[0], lines)
    return figure


def compared_metrics(comparison: Comparison) -> list[str]:
    """Return the metrics of the chart: primary ones, throughput and fragmentation; throughput first."""
    measured = dict.fromkeys(r.metric.id for r in comparison.rows if _drawn(r))
    primary = dict.fromkeys(r.metric.id for r in comparison.rows if r.primary and _drawn(r))
    for group in (THROUGHPUT, FRAGMENTATION):
        if not any(metric in primary for metric in group):
            primary.update(dict.fromkeys([m for m in group if m in measured][:1]))
    return sorted(primary, key=lambda metric: metric not in THROUGHPUT)[:MOST_METRICS]


def _drawn(row: Row) -> bool:
    return row.effect is not None and row.effect.ci95 is not None


def _rows(comparison: Comparison, metric: str) -> list[Row]:
    return [row for row in comparison.rows if row.metric.id == metric and _drawn(row)]


def _places(comparison: Comparison, metrics: Sequence[str]) -> dict[Line, float]:
    """Return the height of each line from the bottom."""
    rows = [row for metric in metrics for row in _rows(comparison, metric)]
    lines: list[Line] = []
    for case in comparison.cases:
        variants = {row.variant for row in rows if row.case == case}
        if variants:
            lines += [(case, ""), *((case, v) for v in comparison.variants if v in variants)]
    return {line: float(len(lines) - 1 - n) for n, line in enumerate(lines)}


def _height(line: Line) -> float:
    return LINE + 0.1 * wrapped(line[1], NAME).count("\n")


def _panel(axes: Axes, report: Report, rows: Sequence[Row], places: Mapping[Line, float]) -> None:
    comparison = report.comparison
    floors = {(floor.case, floor.metric): floor.floor for floor in report.noise}
    as_percent = not is_large(rows)
    for row in rows:
        place = places[row.case, row.variant]
        if (floor := floors.get((row.case, row.metric.id))) is not None:
            draw_floor(axes, row, place, floor, as_percent=as_percent)
        draw_row(axes, row, place, as_percent=as_percent, word=False, size=SMALLEST)
    metric = rows[0].metric
    for (case, variant), y in places.items():
        base = None if variant else comparison.row(case, metric.id, comparison.baseline)
        if base is not None:
            text = mean_text(base.summary, scale_of(metric, base.summary.mean))
            name = comparison.baseline if len(comparison.baseline) <= NAME else "baseline"
            axes.annotate(f" {name} {text}", (0.0, y), xycoords=("axes fraction", "data"),
                          va="center", fontsize=SMALLEST, color=SOFT)  # fmt: skip
    axes.set_ylim(-0.6, len(places) - 0.4)
    unit = draw_axis(axes, rows, as_percent=as_percent)
    if any(metric.id == name for _, name in floors):
        axes.set_xlabel(f"change, {unit} (grey: margin, hatched: noise floor)")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    better = {"higher": "more is better", "lower": "less is better"}.get(metric.direction, "")
    title = textwrap.wrap(f"{metric.id} {ARROWS[metric.direction]} {better}".strip(), TITLE)
    asked = textwrap.wrap(question(metric, comparison.variants), TITLE)
    axes.set_title("\n".join(title), fontsize=SMALLEST, fontweight="normal", color=SOFT)
    axes.annotate("\n".join(asked), (0.0, 1.0), (0.0, 6 + 11.5 * len(title)), xycoords="axes fraction",
                  textcoords="offset points", fontsize=9.5, fontweight="bold")  # fmt: skip


def _names(axes: Axes, places: Mapping[Line, float]) -> None:
    labels = [wrapped(variant, NAME) if variant else str(case) for case, variant in places]
    axes.set_yticks(list(places.values()), labels)
    for tick, (_, variant) in zip(axes.get_yticklabels(), places, strict=True):
        tick.set_fontweight("normal" if variant else "bold")
