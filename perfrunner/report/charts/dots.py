"""Draw every trial of one metric: by variant, paired by block, and in the order of the trials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.style import (
    FAINT,
    INK,
    MARKERS,
    PAPER,
    VERDICT,
    draw_lines,
    legend_columns,
    legend_height,
    new_figure,
    number_axis,
    panels,
    short_number,
    variant_line,
)
from perfrunner.report.numbers import change_of, verdict_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.analysis.model import Comparison, Row
    from perfrunner.domain import Case


def order_chart(comparison: Comparison, cases: list[CaseBlocks], metric_id: str) -> Figure | None:
    """Draw the chart; None if the metric was not measured."""
    measured = [c for c in cases if any(metric_id in t.metrics for t in c.trials)]
    if not measured:
        return None
    start = min(t.started_at for c in measured for t in c.trials)
    figure, all_axes = panels(
        len(measured),
        2.0,
        legend=legend_height(len(comparison.variants), legend_columns(comparison.variants)),
    )
    unit = next(r.metric.unit for r in comparison.rows if r.metric.id == metric_id)
    handles: dict[str, Any] = {}
    for axes, blocks in zip(all_axes, measured, strict=True):
        for index, variant in enumerate(comparison.variants):
            points = sorted(
                ((t.started_at - start).total_seconds() / 60, t.metrics[metric_id])
                for t in blocks.trials
                if t.variant == variant and metric_id in t.metrics
            )
            if not points:
                continue
            (drawn,) = axes.plot(
                *zip(*points, strict=True), **variant_line(index),
                marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=0.8,
            )  # fmt: skip
            handles.setdefault(variant, drawn)
        axes.set_title(str(blocks.case))
        number_axis(axes.yaxis)
    figure.supxlabel("minutes since the first trial", fontsize=8.5)
    figure.supylabel(f"{metric_id} ({unit.replace('us', 'µs')})", fontsize=8.5)
    figure.legend(list(handles.values()), list(handles), loc="outside upper center",
                  ncols=legend_columns(comparison.variants))  # fmt: skip
    return figure


FAR_APART = 20  # a larger ratio of values is drawn on a logarithmic axis
DOTS, MEAN = 0.16, -0.2  # offset above and below the middle of a variant's line


def dots_chart(comparison: Comparison, metric_id: str) -> Figure | None:
    """Draw the chart; None if the metric was not measured."""
    by_case = {
        case: [r for v in comparison.variants if (r := comparison.row(case, metric_id, v))]
        for case in comparison.cases
    }
    by_case = {case: rows for case, rows in by_case.items() if rows}
    if not by_case:
        return None
    columns = min(2, len(by_case))
    lines = -(-len(by_case) // columns)
    variants = [
        v for v in comparison.variants if any(r.variant == v for g in by_case.values() for r in g)
    ]
    height = lines * (0.75 + line_height(variants) * len(variants)) + 0.65
    figure = new_figure(height)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    blocks = sorted({b for rows in by_case.values() for r in rows for b in r.summary.values})
    for axes, (case, rows) in zip(grid.flat, by_case.items(), strict=False):
        _panel(axes, case, rows, variants, blocks)
    for spare in list(grid.flat)[len(by_case) :]:
        spare.set_visible(False)
    metric = next(iter(by_case.values()))[0].metric
    direction = {"higher": ", higher is better", "lower": ", lower is better", "none": ""}
    unit = metric.unit.replace("us", "µs")
    figure.supxlabel(f"{metric.id} ({unit}{direction[metric.direction]})", fontsize=8.5)
    _block_scale(figure, blocks)
    return figure


def _panel(axes: Axes, case: Case, rows: list[Row], variants: list[str], blocks: list[int]) -> None:
    place = {v: len(variants) - 1 - i for i, v in enumerate(variants)}
    colours = block_colours(blocks)
    _pair_lines(axes, rows, place, colours)
    for row in rows:
        y = place[row.variant]
        values = row.summary.values
        axes.scatter(
            list(values.values()),
            [y + DOTS] * len(values),
            c=[colours[b] for b in values],
            s=22,
            linewidths=0.5,
            edgecolors=INK,
            zorder=3,
        )
        _mean(axes, row, y)
    base = rows[0]
    if base.effect is None and base.summary.n:
        axes.axvline(base.summary.mean, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(list(place.values()), [wrapped(v) for v in place])
    axes.set_ylim(-0.62, len(variants) - 0.42)
    axes.margins(x=0.08)
    axes.grid(visible=False, axis="y")
    axes.set_title(str(case))
    drawn = [v for row in rows for v in row.summary.values.values()]
    if min(drawn) > 0 and max(drawn) > FAR_APART * min(drawn):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
    else:
        number_axis(axes.xaxis)


def _pair_lines(
    axes: Axes, rows: list[Row], place: dict[str, int], colours: dict[int, str]
) -> None:
    joined = {
        block: [
            (r.summary.values[block], place[r.variant] + DOTS)
            for r in rows
            if block in r.summary.values
        ]
        for block in colours
    }
    joined = {block: points for block, points in joined.items() if len(points) > 1}
    draw_lines(axes, list(joined.values()), [colours[b] for b in joined], linewidth=0.8, alpha=0.55)


def _mean(axes: Axes, row: Row, y: float) -> None:
    summary = row.summary
    colour = VERDICT.get(row.verdict or "", INK)
    if summary.ci95 is not None:
        axes.plot(list(summary.ci95), [y + MEAN] * 2, color=colour, linewidth=2.2, zorder=3,
                  solid_capstyle="butt")  # fmt: skip
    axes.plot([summary.mean], [y + MEAN], marker="D", markersize=4.5, color=colour, zorder=4)
    if row.effect is None:
        return
    text = change_of(row)
    mark = verdict_text(row).split(" ")[0].replace("·", "")
    axes.annotate(f"{mark} {text}".strip(), (0.995, y - 0.46), xycoords=("axes fraction", "data"),
                  ha="right", va="center", fontsize=7.5, color=colour, zorder=5,
                  bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6})  # fmt: skip


def block_colours(blocks: list[int]) -> dict[int, str]:
    """Return a colour for each block, dark for early and bright for late, so that drift shows as a gradient."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["viridis"]
    last = max(1, len(blocks) - 1)
    return {b: to_hex(scale(0.05 + 0.87 * i / last)) for i, b in enumerate(blocks)}


def _block_scale(figure: Figure, blocks: list[int]) -> None:
    from matplotlib.lines import Line2D

    if len(blocks) < 2:
        return
    colours = block_colours(blocks)
    shown = blocks if len(blocks) <= 12 else [blocks[0], blocks[len(blocks) // 2], blocks[-1]]
    handles = [
        Line2D([], [], marker="o", linestyle="", color=colours[b], markersize=4.5, label=str(b))
        for b in shown
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles),
                           handletextpad=0.1, columnspacing=0.7, title="trials by block", title_fontsize=8,
                           borderaxespad=0.1)  # fmt: skip


def line_height(variants: Sequence[str]) -> float:
    """Return the height in inches of a variant's line with its wrapped name."""
    return max(0.62, *(0.16 * (wrapped(v).count("\n") + 1) + 0.08 for v in variants))


def wrapped(name: str, width: int = 24) -> str:
    """Wrap a long variant name after commas, hyphens and equals signs."""
    lines, line = [], ""
    for piece in pieces(name):
        if line and len(line) + len(piece) > width:
            lines.append(line)
            line = ""
        line += piece
    return "\n".join([*lines, line])


def pieces(name: str, ends: str = ",-+=/") -> list[str]:
    """Split a name where it may be broken: after each of `ends`."""
    at = re.escape(ends)
    return re.findall(rf"[^{at}]*[{at}]|[^{at}]+", name)
