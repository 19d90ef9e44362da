"""Write what a nightly run sends: the mail, and the trend of each metric in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.account import COUNTERPARTS
from perfrunner.report.history import level_text, run_text
from perfrunner.report.html import render_page

if TYPE_CHECKING:
    from perfrunner.analysis.series import Alarm, History, Series


MOST_LINES = 40
MOST_SUBJECT = 100
NEW_HISTORY = "a new history starts"


@dataclass(frozen=True)
class SpecNight:
    """The nightly result of one spec. `failed`: why its run failed, or empty; `log`: the last lines of its log.

    `before` is the value of `failed` in the previous night. `news` are newly found changes of level. `restarted`: why
    tonight's run cannot continue the history of earlier ones.
    """

    name: str
    failed: str = ""
    before: str = ""
    log: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    restarted: str = ""
    worse: bool = False
    report: str = ""
    details: tuple[str, ...] = field(default=())  # of the series that changed
    cured: str = "runs again"

    @property
    def changed(self) -> bool:
        """Return whether anything differs from the previous night."""
        return bool(self.news or self.restarted) or self.turned

    @property
    def turned(self) -> bool:
        """Return whether the run fails since tonight, fails differently (`exit code 3: ...`), or runs again."""
        return self.failed.partition(":")[0] != self.before.partition(":")[0]

    @property
    def subject(self) -> str:
        if self.failed and self.turned:
            return f"{self.name} failed: {self.failed}"
        if self.news:
            return f"{self.name}: {self.news[0]}"
        if self.restarted:
            return f"{self.name}: {NEW_HISTORY}: {self.restarted}"
        return f"{self.name} {self.cured}"


def mail_text(nights: Sequence[SpecNight], trend: str) -> str:
    """Return the mail, its first line the subject, or an empty text; order: failed, worse, better."""
    changed = sorted((n for n in nights if n.changed), key=lambda n: (not n.failed, not n.worse))
    if not changed:
        return ""
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    subject = f"perfrunner: {changed[0].subject}"
    if len(subject) + len(more) > MOST_SUBJECT:
        subject = subject[: MOST_SUBJECT - len(more) - 1] + "…"
    reasons = [f"- {line}" for night in changed for line in _reasons(night)]
    rest = [line for night in changed for line in ("", *_details(night))]
    body = [*reasons, *rest]
    head, foot = [f"Subject: {subject}{more}", ""], ["", f"Trend: {trend}"]
    room = MOST_LINES - len(head) - len(foot)
    if len(body) > room:
        body = [*body[: room - 1], f"… {len(body) - room + 1} more lines: see the trend page"]
    return "\n".join([*head, *body, *foot]) + "\n"


def alarm_text(alarm: Alarm, histories: Sequence[History]) -> str:
    """Return an alarm; one about throughput or the total CPU also says what tonight's run measured of the other."""
    measured = [
        f"{series.metric.id} {run_text(series, series.runs[-1])} on {series.case}"
        for history in histories
        for series in history.series
        if history.metric in COUNTERPARTS.get(alarm.metric.id, ())
        and series.variant == alarm.variant != series.baseline
        and series.case in alarm.cases
        and series.runs[-1].experiment == history.newest
    ]
    return f"{alarm}; its newest run has {', '.join(measured)}" if measured else str(alarm)


def _reasons(night: SpecNight) -> list[str]:
    lines = [f"{night.name}: {line}" for line in night.news]
    if night.restarted:
        lines.append(f"{night.name}: {NEW_HISTORY}: {night.restarted}")
    if night.turned:
        lines.insert(
            0,
            f"{night.name} failed: {night.failed}"
            if night.failed
            else f"{night.name} {night.cured}",
        )
    return lines


def _details(night: SpecNight) -> list[str]:
    shown = [*night.details]
    if night.failed and night.turned:
        shown += [f"    {line}" for line in night.log]
    if night.report:
        shown.append(f"Report of {night.name}: {night.report}")
    return shown


WIDTH, HEIGHT, PAD = 640, 90, 6
MOST_RUNS = 400  # newest runs of a series that are drawn


def trend_page(specs: Mapping[str, Sequence[History]], made_at: str) -> str:
    """Return the page: metrics by spec."""
    return render_page(
        "trend.html.j2",
        made_at=made_at,
        specs=[
            (
                name,
                [alarm for history in histories for alarm in history.alarms][::-1],
                list(dict.fromkeys(line for history in histories for line in history.why)),
                [_drawing(series) for history in histories for series in history.series],
            )
            for name, histories in specs.items()
        ],
    )


def _drawing(series: Series) -> dict[str, Any]:
    """Return the title of a series, the places of its runs and levels, and the levels as text."""
    skipped = max(0, len(series.runs) - MOST_RUNS)
    values = [run.value for run in series.runs][skipped:]
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    step = (WIDTH - 2 * PAD) / max(1, len(values) - 1)

    def x(place: int) -> str:
        return f"{PAD + step * place:.1f}"

    def y(value: float) -> str:
        return f"{HEIGHT - PAD - (HEIGHT - 2 * PAD) * (value - low) / span:.1f}"

    against = "" if series.kind is None else f" against {series.baseline}"
    return {
        "title": f"{series.metric.id}, {series.case}: {series.variant}{against}",
        "width": WIDTH,
        "height": HEIGHT,
        "dots": [(x(n), y(value)) for n, value in enumerate(values)],
        "lines": [
            (x(max(0, level.first - skipped)), x(level.last - skipped), y(level.value))
            for level in series.levels
            if level.last >= skipped
        ],
        "levels": [level_text(series, n) for n in range(len(series.levels))],
    }
