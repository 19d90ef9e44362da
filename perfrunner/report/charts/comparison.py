"""The comparison in one picture: throughput and fragmentation of all arms over all cells, with intervals and margins.

Arms are lines, the same ones in each panel; a panel is a metric. It is read at the width of a page of text, on a light
or a dark ground: its paper is its own, and nothing on it is smaller than 8 points.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.forest import draw_axis, draw_floor, draw_row, is_large
from perfrunner.report.charts.style import WIDTH, new_figure
from perfrunner.report.numbers import ARROWS, mean_text, scale_of
from perfrunner.report.questions import question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Cell, Comparison, Row
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
LINE, HEAD = 0.24, 1.0  # inches: of an arm, and around a panel
NAME, TITLE = 22, 42  # letters on a line: of an arm, of a panel's title
SMALLEST = 8.0  # points
SOFT = "#5a616b"

Line = tuple["Cell", str]  # a cell's arm; its heading, where the arm has no name


def comparison_chart(report: Report) -> Figure | None:
    """None where nothing has an effect with an interval."""
    comparison = report.comparison
    metrics = compared_metrics(comparison)
    if not metrics:
        return None
    pairs = [metrics[n : n + COLUMNS] for n in range(0, len(metrics), COLUMNS)]
    places = [_places(comparison, pair) for pair in pairs]
    heights = [HEAD + sum(map(_height, its)) for its in places]
    figure = new_figure(WIDTH, sum(heights))
    columns = len(pairs[0])
    grid = figure.subplots(len(pairs), columns, squeeze=False, sharey="row", height_ratios=heights)
    for line, pair, its in zip(grid, pairs, places, strict=True):
        for axes, metric in zip(line, pair, strict=False):
            _panel(axes, report, _rows(comparison, metric), its)
        for spare in line[len(pair) :]:
            spare.set_visible(False)
        _names(line[0], its)
    return figure


def compared_metrics(comparison: Comparison) -> list[str]:
    """The primary ones, throughput first; with throughput and fragmentation, where they were measured."""
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
    """The height of each line, from the bottom."""
    rows = [row for metric in metrics for row in _rows(comparison, metric)]
    lines: list[Line] = []
    for cell in comparison.cells:
        its = {row.variant for row in rows if row.cell == cell}
        if its:
            lines += [(cell, ""), *((cell, v) for v in comparison.variants if v in its)]
    return {line: float(len(lines) - 1 - n) for n, line in enumerate(lines)}


def _height(line: Line) -> float:
    return LINE + 0.1 * wrapped(line[1], NAME).count("\n")


def _panel(axes: Axes, report: Report, rows: Sequence[Row], places: Mapping[Line, float]) -> None:
    comparison = report.comparison
    floors = {(floor.cell, floor.metric): floor.floor for floor in report.noise}
    as_percent = not is_large(rows)
    for row in rows:
        place = places[row.cell, row.variant]
        if (floor := floors.get((row.cell, row.metric.id))) is not None:
            draw_floor(axes, row, place, floor, as_percent=as_percent)
        draw_row(axes, row, place, as_percent=as_percent, word=False, size=SMALLEST)
    metric = rows[0].metric
    for (cell, arm), y in places.items():
        base = None if arm else comparison.row(cell, metric.id, comparison.baseline)
        if base is not None:
            text = mean_text(base.summary, scale_of(metric, base.summary.mean))
            name = comparison.baseline if len(comparison.baseline) <= NAME else "baseline"
            axes.annotate(f" {name} {text}", (0.0, y), xycoords=("axes fraction", "data"),
                          va="center", fontsize=SMALLEST, color=SOFT)  # fmt: skip
    axes.set_ylim(-0.6, len(places) - 0.4)
    unit = draw_axis(axes, rows, as_percent=as_percent)
    if any(metric.id == name for _, name in floors):
        axes.set_xlabel(f"change, {unit} (grey: the margin, hatched: the noise floor)")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    better = {"higher": "more is better", "lower": "less is better"}.get(metric.direction, "")
    told = textwrap.wrap(f"{metric.id} {ARROWS[metric.direction]} {better}".strip(), TITLE)
    asked = textwrap.wrap(question(metric, comparison.variants), TITLE)
    axes.set_title("\n".join(told), fontsize=SMALLEST, fontweight="normal", color=SOFT)
    axes.annotate("\n".join(asked), (0.0, 1.0), (0.0, 6 + 11.5 * len(told)), xycoords="axes fraction",
                  textcoords="offset points", fontsize=9.5, fontweight="bold")  # fmt: skip


def _names(axes: Axes, places: Mapping[Line, float]) -> None:
    labels = [wrapped(arm, NAME) if arm else str(cell) for cell, arm in places]
    axes.set_yticks(list(places.values()), labels)
    for tick, (_, arm) in zip(axes.get_yticklabels(), places, strict=True):
        tick.set_fontweight("normal" if arm else "bold")
