"""Fragmentation by all its formulas: a panel a cell, a line a variant, a mark a formula with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.dots import line_height, wrapped
from perfrunner.report.charts.style import ARMS, GRID, WIDTH, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfrunner.analysis import Comparison

FORMULAS = {
    "fragmentation_mapped": ("mapped: share of mapped memory not used", "D"),
    "fragmentation_rss": ("rss: share of the p99 of RSS not used", "o"),
    "fragmentation_rss_now": ("rss now: share of RSS at the end", "s"),
    "fragmentation_rss_settled": ("rss settled: share of RSS after settling", "^"),
    "fragmentation_payload_rss": ("payload: share of the p99 of RSS not payload", "v"),
}


def fragmentation_chart(comparison: Comparison) -> Figure | None:
    """None where no trial has a fragmentation metric."""
    cells = [
        cell
        for cell in comparison.cells
        if any(r.cell == cell and r.metric.id in FORMULAS for r in comparison.rows)
    ]
    if not cells:
        return None
    columns = min(2, len(cells))
    lines = -(-len(cells) // columns)
    variants = comparison.variants
    figure = new_figure(WIDTH, lines * (0.6 + line_height(variants) * len(variants)) + 0.95)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    place = {v: len(variants) - 1 - i for i, v in enumerate(variants)}
    handles: dict[str, Any] = {}
    for axes, cell in zip(grid.flat, cells, strict=False):
        for index, (metric, (label, marker)) in enumerate(FORMULAS.items()):
            for variant, y in place.items():
                row = comparison.row(cell, metric, variant)
                if row is None:
                    continue
                middle, interval = row.summary.mean, row.summary.ci95 or (row.summary.mean,) * 2
                offset = 0.27 - 0.18 * index
                drawn = axes.errorbar(
                    [middle], [y + offset],
                    xerr=[[middle - interval[0]], [interval[1] - middle]],
                    marker=marker, markersize=5, linewidth=1.6, capsize=2.5, linestyle="",
                    color=ARMS[index], zorder=3,
                )  # fmt: skip
                handles.setdefault(label, drawn)
        axes.set_title(str(cell))
        axes.set_yticks(list(place.values()), [wrapped(v) for v in place])
        axes.set_ylim(-0.55, len(variants) - 0.45)
        axes.margins(x=0.07)
        for y in range(len(variants) - 1):
            axes.axhline(y + 0.5, color=GRID, linewidth=0.6)
        axes.grid(visible=False, axis="y")
    for spare in list(grid.flat)[len(cells) :]:
        spare.set_visible(False)
    figure.supxlabel(
        "fragmentation, % of what is held (lower is better), mean and 95 % interval", fontsize=8.5
    )
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=2)
    return figure
