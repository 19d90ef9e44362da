"""Draw memory: fragmentation by all formulas, and what requested memory and the rest of the mapped memory take.

Both charts have a panel per case. Fragmentation has a line per variant and a mark with its interval per formula; the
use of memory has a bar per variant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.dots import line_height, wrapped
from perfrunner.report.charts.style import FAINT, GRID, INK, PAPER, VARIANTS, number_axis, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.analysis.model import Comparison
    from perfrunner.domain import Case


# Kinds of held memory and their marks. Virtual memory has none, because it is not held.
HELD = {
    "mapped": ("mapped", "D"),
    "mapped_no_store": ("mapped, without the store's", "d"),
    "rss": ("rss: its p99 over the run", "o"),
    "rss_plain": ("rss plain: with lazily freed pages", "P"),
    "rss_now": ("rss now: at the end", "s"),
    "rss_now_no_store": ("rss now, without the store's", "*"),
    "rss_settled": ("rss settled: after settling", "^"),
}
ASKED = {"fragmentation": "not mem_used", "fragmentation_payload": "not payload"}
MARK_HEIGHT = 0.13  # inches


def fragmentation_chart(comparison: Comparison) -> Figure | None:
    """Draw the chart; None if no trial has a fragmentation metric."""
    formulas = {f"{stem}_{held}" for stem in ASKED for held in HELD}
    measured = {(row.case, row.metric.id) for row in comparison.rows if row.metric.id in formulas}
    cases = [case for case in comparison.cases if any(case == other for other, _ in measured)]
    if not cases:
        return None
    shown = [
        h for h in HELD if any(f"{stem}_{h}" == name for stem in ASKED for _, name in measured)
    ]
    variants = comparison.variants
    a_line = max(line_height(variants), MARK_HEIGHT * len(shown) + 0.05)
    figure, every = panels(len(cases), 0.6 + a_line * len(variants), legend=0.9, share_y=True)
    for axes, case in zip(every, cases, strict=True):
        _fragmentation_panel(axes, case, comparison, shown)
    figure.supxlabel(
        "share of what is held that is not used, % (lower is better), mean and 95 % interval",
        fontsize=8.5,
    )
    stems = [s for s in ASKED if any(name in {f"{s}_{h}" for h in HELD} for _, name in measured)]
    figure.legend(handles=_fragmentation_handles(shown, stems), loc="outside upper center", ncols=3)
    return figure


def _fragmentation_panel(axes: Axes, case: Case, comparison: Comparison, shown: list[str]) -> None:
    variants = comparison.variants
    place = {v: len(variants) - 1 - i for i, v in enumerate(variants)}
    for index, held in enumerate(shown):
        offset = 0.8 * (0.5 - (index + 0.5) / len(shown))
        for stem in ASKED:
            rows = {
                y + offset: row.summary
                for variant, y in place.items()
                if (row := comparison.row(case, f"{stem}_{held}", variant)) is not None
            }
            if not rows:
                continue
            ends = [(s.mean, *(s.ci95 or (s.mean,) * 2)) for s in rows.values()]
            axes.errorbar(  # one call for all variants: the cost is per call
                [mean for mean, _, _ in ends], list(rows),
                xerr=[[mean - low for mean, low, _ in ends], [high - mean for mean, _, high in ends]],
                linewidth=1.6, capsize=2.5, zorder=3, **_mark(held, stem),
            )  # fmt: skip
    axes.set_title(str(case))
    axes.set_yticks(list(place.values()), [wrapped(v) for v in place])
    axes.set_ylim(-0.55, len(variants) - 0.45)
    axes.margins(x=0.07)
    for y in range(len(variants) - 1):
        axes.axhline(y + 0.5, color=GRID, linewidth=0.6)
    axes.grid(visible=False, axis="y")


def _mark(held: str, stem: str) -> dict[str, Any]:
    """Return the mark of a formula: filled relative to mem_used, hollow relative to payload."""
    colour = VARIANTS[list(HELD).index(held)]
    inside = colour if stem == "fragmentation" else PAPER
    return {
        "marker": HELD[held][1], "markersize": 5, "color": colour, "markerfacecolor": inside, "linestyle": "",
    }  # fmt: skip


def _fragmentation_handles(shown: list[str], stems: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], label=HELD[held][0], **_mark(held, "fragmentation")) for held in shown
    ]
    for stem in stems:
        mark = {**_mark("rss", stem), "color": FAINT, "markeredgecolor": FAINT}
        mark["markerfacecolor"] = FAINT if stem == "fragmentation" else PAPER
        words = f"{'filled' if stem == 'fragmentation' else 'hollow'}: {ASKED[stem]}"
        handles.append(Line2D([], [], label=words, **mark))
    return handles


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
        _heap_panel(axes, case, comparison)
    figure.supxlabel(
        "bytes at the end of the load (RSS: its p99), mean of the trials", fontsize=8.5
    )
    figure.legend(handles=_heap_handles(), loc="outside upper center", ncols=3)
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


def _heap_panel(axes: Axes, case: Case, comparison: Comparison) -> None:
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


def _heap_handles() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [
        Line2D([], [], label=label, color=INK, linestyle="", **look)
        for label, look in MARKS.values()
    ]
    return [Patch(color=colour, label=words) for words, colour in PARTS.values()] + marks
