"""Draw the course of the trials: operations per second and memory over time.

A workload with `churn` has another chart: memory while items are stored, deleted and stored again.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.style import (
    FAINT,
    VARIANTS,
    draw_lines,
    legend_columns,
    legend_height,
    number_axis,
    panels,
    variant_line,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.domain import Case
    from perfrunner.results import TrialRecord
    from perfrunner.results.raw import Points, RawSeries


def rate_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """Draw operations per second over the seconds of every trial."""
    since = "of load on the variant" if raw.trial_slices else "since the load began"
    return course_chart(raw.rates, variants, f"seconds {since}", "operations per second")


def course_chart(
    curves: Mapping[Case, Mapping[str, Sequence[Points]]],
    variants: Sequence[str],
    since: str,
    unit: str,
) -> Figure | None:
    """Draw a thin line for each trial and a thick one for their median, with a panel for each case."""
    cases = [case for case, by_name in curves.items() if any(by_name.values())]
    if not cases:
        return None
    figure, all_axes = panels(
        len(cases), 2.0, legend=legend_height(len(variants), legend_columns(variants))
    )
    handles: dict[str, Any] = {}
    for axes, case in zip(all_axes, cases, strict=True):
        for index, variant in enumerate(variants):
            trials = curves[case].get(variant, [])
            colour = VARIANTS[index % len(VARIANTS)]
            draw_lines(axes, trials, colour, linewidth=0.6, alpha=0.35)
            if trials:
                t, middle, _, _ = across(trials)
                (drawn,) = axes.plot(t, middle, **variant_line(index), linewidth=1.8)
                handles.setdefault(variant, drawn)
        axes.set_title(str(case))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    figure.supxlabel(f"{since} (thin: trials, thick: median)", fontsize=8.5)
    figure.supylabel(unit, fontsize=8.5)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=legend_columns(variants),
    )
    return figure


STYLES: dict[str, Any] = {"RSS": "-", "mapped": (0, (5, 2)), "mem_used": (0, (1, 1.4))}


def memory_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """Draw RSS (without lazily freed pages), mapped and mem_used: the median and range over trials."""
    from matplotlib.lines import Line2D

    cases = [case for case, by_name in raw.memory.items() if any(by_name.values())]
    if not cases:
        return None
    figure, all_axes = panels(
        len(cases), 2.4, legend=legend_height(len(variants) + len(STYLES), legend_columns(variants))
    )
    seen: set[str] = set()
    colours: dict[str, str] = {}
    for axes, case in zip(all_axes, cases, strict=True):
        for index, variant in enumerate(variants):
            trials = raw.memory[case].get(variant, [])
            for kind, style in STYLES.items():
                curves = [kinds[kind] for kinds in trials if kind in kinds]
                if not curves:
                    continue
                seen.add(kind)
                colour = colours.setdefault(variant, VARIANTS[index % len(VARIANTS)])
                t, middle, low, high = across(curves)
                axes.plot(t, middle, color=colour, linestyle=style, linewidth=1.4)
                axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_title(str(case))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    handles = [Line2D([], [], color=c, label=v) for v, c in colours.items()]
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
    """Return (t, median, lowest, highest) over curves at the times of the longest, while at least half of them last.

    A curve does not count after its end. A median of the few longest curves would describe only those.
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


PHASES = ("all stored", "deleted, rested", "stored again")


def churn_chart(cases: Sequence[CaseBlocks], variants: Sequence[str]) -> Figure | None:
    """Draw the courses of all trials, and the ends of the phases."""
    curves: dict[Case, dict[str, list[Points]]] = {}
    ends: dict[Case, list[float]] = {}
    for blocks in cases:
        trials, ends[blocks.case] = churn_courses(blocks)
        for trial, points in trials:
            curves.setdefault(blocks.case, {}).setdefault(trial.variant, []).append(points)
    since = "seconds since the first item, with the phases of the median trial"
    figure = course_chart(curves, variants, since, "resident bytes")
    panels = [axes for axes in figure.axes if axes.get_visible()] if figure else []
    for axes, case in zip(panels, curves, strict=True):
        for end, name in zip(ends[case], PHASES, strict=False):
            axes.axvline(end, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate(name, (end, 0.03), (-2, 0), xycoords=("data", "axes fraction"), fontsize=8,
                          textcoords="offset points", rotation=90, ha="right", va="bottom")  # fmt: skip
    return figure


def churn_courses(blocks: CaseBlocks) -> tuple[list[tuple[TrialRecord, Points]], list[float]]:
    """Return (trial, resident bytes over seconds) of the trials of a churn, and the seconds at which its phases end.

    A phase takes longer in one trial than in another. The times of each trial are stretched to the median ends of
    the phases, because a median over unlike phases would be of none of them.
    """
    import numpy as np

    trials = [t for t in blocks.trials if t.facts.get("rss_over_time")]
    known = [t.facts["churn_ends"] for t in trials if t.facts.get("churn_ends")]
    ends = [median(each) for each in zip(*known, strict=True)]
    courses = []
    for trial in trials:
        times, values = zip(*trial.facts["rss_over_time"], strict=True)
        own = trial.facts.get("churn_ends") or ends
        stretched = np.interp(times, [0.0, *own], [0.0, *ends]) if ends else np.array(times)
        courses.append((trial, list(zip(stretched.tolist(), values, strict=True))))
    return courses, ends
