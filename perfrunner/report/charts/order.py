"""The trials in the order they ran: drift of the machine, and whether one arm always came first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.style import (
    MARKERS,
    arm_line,
    legend_columns,
    legend_height,
    number_axis,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfrunner.analysis import Comparison
    from perfrunner.analysis.cells import CellBlocks


def order_chart(comparison: Comparison, cells: list[CellBlocks], metric_id: str) -> Figure | None:
    """None where nothing of the metric was measured."""
    found = [c for c in cells if any(metric_id in t.metrics for t in c.trials)]
    if not found:
        return None
    start = min(t.started_at for c in found for t in c.trials)
    figure, all_axes = panels(
        len(found),
        2.0,
        legend=legend_height(len(comparison.variants), legend_columns(comparison.variants)),
    )
    unit = next(r.metric.unit for r in comparison.rows if r.metric.id == metric_id)
    handles: dict[str, Any] = {}
    for axes, blocks in zip(all_axes, found, strict=True):
        for index, variant in enumerate(comparison.variants):
            points = sorted(
                ((t.started_at - start).total_seconds() / 60, t.metrics[metric_id])
                for t in blocks.trials
                if t.variant == variant and metric_id in t.metrics
            )
            if not points:
                continue
            (drawn,) = axes.plot(
                *zip(*points, strict=True), **arm_line(index),
                marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=0.8,
            )  # fmt: skip
            handles.setdefault(variant, drawn)
        axes.set_title(str(blocks.cell))
        number_axis(axes.yaxis)
    figure.supxlabel("minutes since the first trial", fontsize=8.5)
    figure.supylabel(f"{metric_id} ({unit.replace('us', 'µs')})", fontsize=8.5)
    figure.legend(list(handles.values()), list(handles), loc="outside upper center",
                  ncols=legend_columns(comparison.variants))  # fmt: skip
    return figure
