"""What happened inside the trials: operations per second, and memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.style import (
    ARMS,
    FAINT,
    arm_line,
    draw_lines,
    legend_columns,
    legend_height,
    number_axis,
    panels,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from perfrunner.results.raw import Points, RawSeries


def rate_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """A thin line a trial, a thick one for their median."""
    cells = [cell for cell, arms in raw.rates.items() if any(arms.values())]
    if not cells:
        return None
    figure, all_axes = panels(
        len(cells), 2.0, legend=legend_height(len(variants), legend_columns(variants))
    )
    handles: dict[str, Any] = {}
    for axes, cell in zip(all_axes, cells, strict=True):
        for index, variant in enumerate(variants):
            trials = raw.rates[cell].get(variant, [])
            colour = ARMS[index % len(ARMS)]
            draw_lines(axes, trials, colour, linewidth=0.6, alpha=0.35)
            if trials:
                t, middle, _, _ = across(trials)
                (drawn,) = axes.plot(t, middle, **arm_line(index), linewidth=1.8)
                handles.setdefault(variant, drawn)
        axes.set_title(str(cell))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    since = "of load on the arm" if raw.turns else "since the load began"
    figure.supxlabel(f"seconds {since} (thin: trials, thick: their median)", fontsize=8.5)
    figure.supylabel("operations per second", fontsize=8.5)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=legend_columns(variants),
    )
    return figure


STYLES: dict[str, Any] = {"RSS": "-", "mapped": (0, (5, 2)), "mem_used": (0, (1, 1.4))}


def memory_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """RSS (without lazily freed pages), mapped and mem_used: median over trials, and their range."""
    from matplotlib.lines import Line2D

    cells = [cell for cell, arms in raw.memory.items() if any(arms.values())]
    if not cells:
        return None
    figure, all_axes = panels(
        len(cells), 2.4, legend=legend_height(len(variants) + len(STYLES), legend_columns(variants))
    )
    seen: set[str] = set()
    arms: dict[str, str] = {}
    for axes, cell in zip(all_axes, cells, strict=True):
        for index, variant in enumerate(variants):
            trials = raw.memory[cell].get(variant, [])
            for kind, style in STYLES.items():
                curves = [kinds[kind] for kinds in trials if kind in kinds]
                if not curves:
                    continue
                seen.add(kind)
                colour = arms.setdefault(variant, ARMS[index % len(ARMS)])
                t, middle, low, high = across(curves)
                axes.plot(t, middle, color=colour, linestyle=style, linewidth=1.4)
                axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_title(str(cell))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    handles = [Line2D([], [], color=c, label=v) for v, c in arms.items()]
    handles += [
        Line2D([], [], color=FAINT, linestyle=style, label=kind)
        for kind, style in STYLES.items()
        if kind in seen
    ]
    figure.supxlabel(
        "seconds since the first sample (line: median of the trials, band: their range)",
        fontsize=8.5,
    )
    figure.supylabel("bytes", fontsize=8.5)
    figure.legend(handles=handles, loc="outside upper center", ncols=legend_columns(variants))
    return figure


def across(curves: Sequence[Points]) -> tuple[Any, Any, Any, Any]:
    """(t, median, lowest, highest) over curves, at the instants of the longest one, as long as half of them last.

    Beyond its own end a curve has no say; a median of the few that last longest would tell of those few.
    """
    import numpy as np

    t = np.array([x for x, _ in max(curves, key=len)], dtype=np.float64)
    lines = []
    for curve in curves:
        x, y = (np.array(values, dtype=np.float64) for values in zip(*curve, strict=True))
        lines.append(np.interp(t, x, y, np.nan, np.nan))
    table = np.array(lines)
    known = 2 * (~np.isnan(table)).sum(axis=0) >= len(curves)
    t, table = t[known], table[:, known]
    return t, np.nanmedian(table, axis=0), np.nanmin(table, axis=0), np.nanmax(table, axis=0)
