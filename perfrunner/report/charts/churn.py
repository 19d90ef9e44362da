"""Draw resident memory while items are stored, deleted and stored again (`churn` of a workload)."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from perfrunner.report.charts.series import course_chart
from perfrunner.report.charts.style import FAINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.domain import Case
    from perfrunner.results import TrialRecord
    from perfrunner.results.raw import Points

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
