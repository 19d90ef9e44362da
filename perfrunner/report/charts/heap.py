"""Draw the use of memory: a panel per case, a bar per variant of requested and other held memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.dots import line_height, wrapped
from perfrunner.report.charts.style import INK, PAPER, VARIANTS, number_axis, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis import Comparison
    from perfrunner.domain import Case

# These are not the colours of the first variants, which are on the same page. Unused memory has warm colours.
PARTS = {
    "payload": ("payload", VARIANTS[11]),
    "charged": ("other charged memory: rounding, hash table, checkpoints", VARIANTS[5]),
    "frag": ("free inside pages in use", VARIANTS[4]),
    "kept": ("metadata, and pages not purged yet", VARIANTS[7]),
}
# These are not parts of a bar: RSS includes memory that is charged to no bucket and excludes lazily freed pages, and
# mapped memory includes pages that were never touched.
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "rss_bytes": ("RSS", {"marker": "|", "markersize": 11, "markeredgewidth": 2.0}),
    "mapped_bytes": ("mapped", {"marker": "D", "markersize": 4, "markerfacecolor": PAPER}),
}


def heap_chart(comparison: Comparison) -> Figure | None:
    """Draw the chart; None if no trial recorded the free memory inside the allocator's pages."""
    cases = [
        case
        for case in comparison.cases
        if any("frag" in _parts(comparison, case, v) for v in comparison.variants)
    ]
    if not cases:
        return None
    variants = comparison.variants
    height = 0.6 + line_height(variants) * len(variants)
    figure, every = panels(len(cases), height, legend=0.9, share_y=True)
    for axes, case in zip(every, cases, strict=True):
        _panel(axes, case, comparison)
    figure.supxlabel(
        "bytes at the end of the load (RSS: its p99), mean of the trials", fontsize=8.5
    )
    figure.legend(handles=_handles(), loc="outside upper center", ncols=3)
    return figure


def _parts(comparison: Comparison, case: Case, variant: str) -> dict[str, float]:
    """Return bytes by part in the order of PARTS, without parts that the server or the allocator does not report."""
    used, payload, frag, kept = (
        row.summary.mean if (row := comparison.row(case, metric, variant)) is not None else None
        for metric in (
            "mem_used_bytes", "payload_bytes", "allocator_frag_bytes", "allocator_rss_bytes",
        )
    )  # fmt: skip
    if used is None or payload is None:
        return {}
    parts = {"payload": payload, "charged": used - payload, "frag": frag, "kept": kept}
    return {part: value for part, value in parts.items() if value is not None}


def _panel(axes: Axes, case: Case, comparison: Comparison) -> None:
    variants = comparison.variants
    for index, variant in enumerate(variants):
        y, left = len(variants) - 1 - index, 0.0
        for part, value in _parts(comparison, case, variant).items():
            axes.barh(y, value, left=left, height=0.55, color=PARTS[part][1], zorder=2)
            left += value
        for metric, (_, look) in MARKS.items():
            row = comparison.row(case, metric, variant)
            if row is not None:
                axes.plot([row.summary.mean], [y], color=INK, linestyle="", zorder=3, **look)
    axes.set_title(str(case))
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
