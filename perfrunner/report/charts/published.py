"""Draw published changes as diamonds, with the measured change and its interval on the same line."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.style import FAINT, INK, VERDICT, factor_axis, new_figure
from perfrunner.report.numbers import LARGE_RATIO
from perfrunner.report.published import MARKS, factor_text, lines_of, significant_signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis.published import PublishedLine
    from perfrunner.report.model import Report

LINE, HEAD = 0.27, 0.75  # inches
COLOURS = {
    "agrees": VERDICT["better"],
    "disagrees": VERDICT["worse"],
    "cannot tell": VERDICT["unsure"],
}


def published_chart(report: Report) -> Figure | None:
    """Draw a panel for each kind of effect; None if no published value was measured."""
    lines = sorted(lines_of(report), key=_unit)
    groups = [(unit, list(members)) for unit, members in groupby(lines, _unit)]
    if not groups:
        return None
    heights = [HEAD + LINE * len(members) for _, members in groups]
    figure = new_figure(sum(heights) + 0.3)
    grid = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)
    for axes, (unit, members) in zip(grid.flat, groups, strict=True):
        _panel(axes, unit, members)
    return figure


def _unit(line: PublishedLine) -> str:
    if line.metric.effect == "ratio":
        return ""
    return "percentage points" if line.metric.unit == "%" else line.metric.unit


def _panel(axes: Axes, unit: str, lines: list[PublishedLine]) -> None:
    neutral = 0.0 if unit else 1.0
    for index, line in enumerate(lines):
        y = len(lines) - 1 - index
        row = line.measured
        assert row is not None
        assert row.effect is not None
        published_at = line.effect
        assert published_at is not None
        colour = COLOURS.get(line.agreement or "", INK)
        low, high = row.effect.ci95 or (row.effect.estimate, row.effect.estimate)
        axes.plot([low, high], [y, y], color=colour, linewidth=2.0, zorder=3)
        axes.plot([row.effect.estimate], [y], "s", markersize=4.5, color=colour, zorder=4,
                  label="measured, with its 95 % interval" if index == 0 else None)  # fmt: skip
        axes.plot([published_at], [y], "D", markersize=5.5, markerfacecolor="none", markeredgecolor=INK,
                  zorder=5, label="published" if index == 0 else None)  # fmt: skip
        published = f"{significant_signed(published_at)}" if unit else factor_text(published_at)
        axes.annotate(f"published {published}  {MARKS.get(line.agreement or '', '')} {line.agreement}",
                      (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=7.2,
                      color=colour, annotation_clip=False)  # fmt: skip
    axes.axvline(neutral, color=FAINT, linewidth=1.0, zorder=1)
    metrics = {line.metric.id for line in lines}
    several = len(metrics) > 1 and not any("/" in metric for metric in metrics)
    names = [
        wrapped(f"{line.metric.id + ', ' if several else ''}{line.label}, {line.variant}", 48)
        for line in lines
    ]
    axes.set_yticks(range(len(lines) - 1, -1, -1), names, fontsize=7.0)
    axes.set_ylim(-0.7, len(lines) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"change, {unit}" if unit else "change, variant / baseline")
    if not unit and _far(lines):
        factor_axis(axes)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)


def _far(lines: list[PublishedLine]) -> bool:
    values = [
        v
        for line in lines
        if line.measured and line.measured.effect
        for v in (line.effect or 1.0, line.measured.effect.estimate)
    ]
    return any(v > LARGE_RATIO or v < 1 / LARGE_RATIO for v in values)
