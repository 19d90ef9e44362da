"""Where the memory lies: a panel a cell, a bar a variant of what is asked for and what the allocator holds besides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.dots import line_height, wrapped
from perfrunner.report.charts.style import ARMS, INK, PAPER, number_axis, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Cell, Comparison

# Not the colours of the first arms, which stand beside them on a page; what is not used is warm.
PARTS = {
    "payload": ("payload", ARMS[11]),
    "charged": ("charged besides: rounding, hash table, checkpoints", ARMS[5]),
    "frag": ("free inside pages in use", ARMS[4]),
    "kept": ("metadata, and pages not purged yet", ARMS[7]),
}
# No part of a bar: RSS has also what is charged to no bucket, and no lazily freed pages; of what is mapped not all was
# ever touched.
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "rss_bytes": ("RSS", {"marker": "|", "markersize": 11, "markeredgewidth": 2.0}),
    "mapped_bytes": ("mapped", {"marker": "D", "markersize": 4, "markerfacecolor": PAPER}),
}


def heap_chart(comparison: Comparison) -> Figure | None:
    """None where no trial tells what is free inside the allocator's pages."""
    cells = [
        cell
        for cell in comparison.cells
        if any("frag" in _parts(comparison, cell, v) for v in comparison.variants)
    ]
    if not cells:
        return None
    variants = comparison.variants
    height = 0.6 + line_height(variants) * len(variants)
    figure, every = panels(len(cells), height, legend=0.9, share_y=True)
    for axes, cell in zip(every, cells, strict=True):
        _panel(axes, cell, comparison)
    figure.supxlabel(
        "bytes at the end of the load (RSS: its p99), mean of the trials", fontsize=8.5
    )
    figure.legend(handles=_handles(), loc="outside upper center", ncols=3)
    return figure


def _parts(comparison: Comparison, cell: Cell, variant: str) -> dict[str, float]:
    """Bytes by part, in the order of PARTS; without what the server or the allocator does not tell."""
    used, payload, frag, kept = (
        row.summary.mean if (row := comparison.row(cell, metric, variant)) is not None else None
        for metric in (
            "mem_used_bytes", "payload_bytes", "allocator_frag_bytes", "allocator_rss_bytes",
        )
    )  # fmt: skip
    if used is None or payload is None:
        return {}
    told = {"payload": payload, "charged": used - payload, "frag": frag, "kept": kept}
    return {part: value for part, value in told.items() if value is not None}


def _panel(axes: Axes, cell: Cell, comparison: Comparison) -> None:
    variants = comparison.variants
    for index, variant in enumerate(variants):
        y, left = len(variants) - 1 - index, 0.0
        for part, value in _parts(comparison, cell, variant).items():
            axes.barh(y, value, left=left, height=0.55, color=PARTS[part][1], zorder=2)
            left += value
        for metric, (_, look) in MARKS.items():
            row = comparison.row(cell, metric, variant)
            if row is not None:
                axes.plot([row.summary.mean], [y], color=INK, linestyle="", zorder=3, **look)
    axes.set_title(str(cell))
    axes.set_yticks(range(len(variants) - 1, -1, -1), [wrapped(v) for v in variants])
    axes.set_ylim(-0.55, len(variants) - 0.45)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    number_axis(axes.xaxis)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [
        Line2D([], [], label=label, color=INK, linestyle="", **look)
        for label, look in MARKS.values()
    ]
    return [Patch(color=colour, label=words) for words, colour in PARTS.values()] + marks
