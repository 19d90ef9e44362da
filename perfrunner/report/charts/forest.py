"""Draw a forest plot: the change of one metric against the baseline, with intervals, by case and variant."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.style import (
    FAINT,
    GRID,
    INK,
    VERDICT,
    WIDTH,
    factor_axis,
    new_figure,
)
from perfrunner.report.numbers import (
    LARGE_RATIO,
    change,
    scale_of,
    verdict_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Comparison, Effect, Row

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
    figure = new_figure(WIDTH, 0.95 + ROW_HEIGHT * lines + 0.13 * tall)
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


def is_large(rows: Sequence[Row]) -> bool:
    """Return whether a logarithmic axis of factors is better than one of percents."""
    bounds = [
        b
        for r in rows
        if r.effect and r.effect.ci95 and r.effect.kind == "ratio"
        for b in r.effect.ci95
    ]
    return any(b > LARGE_RATIO or b < 1 / LARGE_RATIO for b in bounds)


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
    text = change(effect, row.metric, scale_of(row.metric, row.summary.mean))
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
