"""The latencies of one cell: a line of panels an operation, as percentile curve and as histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.latencies import BARS_A_DECADE, latencies
from perfrunner.report.charts.style import arm_line, legend_columns, legend_height, panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Cell
    from perfrunner.report.charts.latencies import Latencies
    from perfrunner.results.raw import Inside

LABELLED = (50, 90, 99, 99.9, 99.99)
STEPS = (1.0, 2.0, 5.0)  # of a decade, where there are few decades


def latency_chart(inside: Sequence[Inside], cell: Cell, variants: Sequence[str]) -> Figure | None:
    """None where no load tool of the cell counted latencies."""
    by_op: dict[str, list[Latencies]] = {}
    for one in latencies(inside, cell, variants):
        by_op.setdefault(one.op, []).append(one)
    if not by_op:
        return None
    columns = legend_columns(variants)
    figure, axes = panels(2 * len(by_op), 2.1, legend=legend_height(len(variants), columns))
    for row, (op, arms) in enumerate(by_op.items()):
        curves, bars = axes[2 * row : 2 * row + 2]
        curves.set_title(op)
        for arm in arms:
            look = arm_line(variants.index(arm.variant))
            _curve(curves, arm, look)
            _bars(bars, arm, look)
        _percentile_axis(curves)
        _time_axis(curves.yaxis, [us for arm in arms for _, us in arm.curve])
        _time_axis(bars.xaxis, [us for arm in arms for us, _ in arm.bars])
        bars.set_ylim(bottom=0)
        curves.set_ylabel("latency")
        bars.set_ylabel("% of operations")
    axes[-2].set_xlabel("percentile")
    axes[-1].set_xlabel("latency")
    handles = {line.get_label(): line for ax in axes[::2] for line in ax.get_lines()}
    figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=columns)
    return figure


def _curve(axes: Axes, arm: Latencies, look: dict[str, Any]) -> None:
    """Along x one in how many operations is slower: the tail gets as much room as the rest."""
    x, y = zip(*((100 / (100 - percent), us) for percent, us in arm.curve), strict=True)
    axes.plot(x, y, label=arm.variant, linewidth=1.4, **look)


def _bars(axes: Axes, arm: Latencies, look: dict[str, Any]) -> None:
    half = 10 ** (0.5 / BARS_A_DECADE)
    edges = [arm.bars[0][0] / half, *(us * half for us, _ in arm.bars)]
    axes.stairs([share for _, share in arm.bars], edges, linewidth=1.1, **look)


def _percentile_axis(axes: Axes) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks([100 / (100 - p) for p in LABELLED], [f"{p:g}" for p in LABELLED])
    axes.xaxis.set_minor_locator(NullLocator())


def _time_axis(axis: Any, microseconds: Sequence[float]) -> None:
    """Logarithmic, labelled in µs, ms or s."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    (axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale)("log")
    decades = max(microseconds) / max(min(microseconds), 1e-3)
    axis.set_major_locator(LogLocator(subs=STEPS if decades < 300 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _time(value)))
    axis.set_minor_locator(NullLocator())


def _time(microseconds: float) -> str:
    for factor, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= factor:
            return f"{microseconds / factor:g} {unit}"
    return f"{microseconds:g} µs"
