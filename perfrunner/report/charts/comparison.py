"""Draw changes against the baseline with their intervals: forest plots, and the comparison as one picture.

A forest plot shows one metric by case and variant. The comparison shows throughput and fragmentation of all variants
over all cases. A panel of it is a metric and has the same line for each variant, with intervals and margins. The
picture must be readable at the width of a page of text and on light and dark pages: it has its own background, and no
text below 8 points.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.style import FAINT, GRID, INK, VERDICT, factor_axis, new_figure
from perfrunner.report.numbers import ARROWS, change_of, is_large, mean_text, scale_of, verdict_text
from perfrunner.report.sentences import question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis.model import Comparison, Effect, Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report


ROW_HEIGHT = 0.34


def forest_chart(comparison: Comparison, metric_id: str) -> Figure | None:
    """Draw the chart; None if the metric has no effect with an interval."""
    rows = [
        row
        for row in comparison.rows
        if row.metric.id == metric_id and row.effect is not None and row.effect.ci95 is not None
    ]
    if not rows:
        return None
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = len(rows) + len(cases)  # a heading for each case
    tall = sum(wrapped(row.variant, 26).count("\n") for row in rows)
    figure = new_figure(0.95 + ROW_HEIGHT * lines + 0.13 * tall)
    axes = figure.subplots()
    as_percent = not is_large(rows)
    labels: list[tuple[int, str, bool]] = []
    y = lines - 1
    for case in cases:
        labels.append((y, str(case), True))
        y -= 1
        for row in (r for r in rows if r.case == case):
            draw_row(axes, row, y, as_percent=as_percent)
            labels.append((y, wrapped(row.variant, 26), False))
            y -= 1
    _finish(axes, rows, labels, lines, as_percent=as_percent)
    return figure


def _position(effect: Effect, value: float, *, as_percent: bool) -> float:
    return (value - 1) * 100 if effect.kind == "ratio" and as_percent else value


def draw_row(
    axes: Axes, row: Row, y: float, *, as_percent: bool, word: bool = True, size: float = 7.8
) -> None:
    """Draw the interval of a row at height `y`, and next to the axes its change with the verdict or its mark."""
    effect = row.effect
    assert effect is not None
    assert effect.ci95 is not None
    colour = VERDICT.get(row.verdict or "", INK)
    low, high = (_position(effect, b, as_percent=as_percent) for b in effect.ci95)
    middle = _position(effect, effect.estimate, as_percent=as_percent)
    axes.plot([low, high], [y, y], color=colour, linewidth=2.0, solid_capstyle="butt", zorder=3)
    axes.plot([middle], [y], marker="s", markersize=5, color=colour, zorder=4)
    text = change_of(row)
    verdict = verdict_text(row) if row.verdict else ""
    verdict = verdict if word else verdict.split(" ")[0]
    axes.annotate(f"{text}  {verdict}".rstrip(), (1.01, y), xycoords=("axes fraction", "data"),
                  va="center", fontsize=size, color=colour, annotation_clip=False)  # fmt: skip


def _finish(
    axes: Axes,
    rows: list[Row],
    labels: list[tuple[int, str, bool]],
    lines: int,
    *,
    as_percent: bool,
) -> None:
    axes.set_ylim(-0.6, lines - 0.4)
    axes.set_yticks([y for y, _, _ in labels], [text for _, text, _ in labels])
    for tick, (_, _, heading) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set_fontweight("bold" if heading else "normal")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    unit = draw_axis(axes, rows, as_percent=as_percent).replace("points", "percentage points")
    axes.set_xlabel("")
    against = rows[0].effect.baseline if rows[0].effect else ""
    label = f"change of {rows[0].metric.id} against {against} ({unit}); grey: margin"
    axes.figure.supxlabel("\n".join(textwrap.wrap(label, 95)), fontsize=8.5)


def draw_axis(axes: Axes, rows: Sequence[Row], *, as_percent: bool) -> str:
    """Draw the margin, the line of no change and the axis label; return the unit."""
    effect = rows[0].effect
    assert effect is not None
    low, high = around_none(effect, effect.margin, as_percent=as_percent)
    axes.axvspan(low, high, color=GRID, zorder=0, linewidth=0)
    axes.axvline(
        _position(effect, effect.neutral, as_percent=as_percent),
        color=FAINT,
        linewidth=1.0,
        zorder=1,
    )
    if not as_percent:
        factor_axis(axes)
    unit = "points" if rows[0].metric.unit == "%" else rows[0].metric.unit
    if effect.kind == "ratio":
        unit = "%" if as_percent else "factor"
    axes.set_xlabel(f"change, {unit} (grey: margin)")
    return unit


def draw_floor(axes: Axes, row: Row, y: float, floor: float, *, as_percent: bool) -> None:
    """Draw the noise floor of the host behind a row's interval."""
    assert row.effect is not None
    low, high = around_none(row.effect, floor, as_percent=as_percent)
    axes.fill_between([low, high], y - 0.35, y + 0.35, facecolor="none", edgecolor=FAINT, hatch="////",
                      linewidth=0, alpha=0.6, zorder=1)  # fmt: skip


def around_none(effect: Effect, reach: float, *, as_percent: bool) -> tuple[float, float]:
    """Return the ends of an interval that is symmetric about no change."""
    ends = (effect.neutral - reach, effect.neutral + reach)
    if effect.kind == "ratio":
        ends = (1 / (1 + reach), 1 + reach)
    low, high = (_position(effect, end, as_percent=as_percent) for end in ends)
    return low, high


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
    figure = new_figure(sum(heights))
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
