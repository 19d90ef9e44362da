"""Write what a nightly run sends: the mail, and the trend of each metric in it."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfrunner.report.history import level_text

if TYPE_CHECKING:
    from perfrunner.analysis.series import History, Series


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
LEGEND = "A dot is a run: the change of a variant against the baseline, or the mean of the baseline. A line is a level."
STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; }
svg { width: 100%; height: auto; } .run { fill: #0072b2; } .level { stroke: #d55e00; stroke-width: 2; }
.levels { margin: 0; padding-left: 1.2rem; } .alarm { color: #c23b22; }
"""


def trend_page(specs: Mapping[str, Sequence[History]], made_at: str) -> str:
    """Return the page: metrics by spec. All names are escaped, because they come from specs and stores."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>perfrunner: trend</title><style>{STYLE}</style><h1>Nightly trend</h1>",
        f"<p>{html.escape(made_at)}. {LEGEND}</p>",
    ]
    for name, histories in specs.items():
        parts.append(f"<h2>{html.escape(name)}</h2>")
        alarms = [alarm for history in histories for alarm in history.alarms]
        if alarms:
            shown = "".join(f"<li>{html.escape(str(alarm))}</li>" for alarm in reversed(alarms))
            parts.append(f"<ul class=alarm>{shown}</ul>")
        left_out = dict.fromkeys(line for history in histories for line in history.why)
        parts += [f"<p>left out: {html.escape(line)}</p>" for line in left_out]
        parts += [_series(series) for history in histories for series in history.series]
    return "\n".join(parts) + "\n"


def _series(series: Series) -> str:
    title = f"{series.metric.id}, {series.case}: {series.variant}"
    if series.kind is not None:
        title += f" against {series.baseline}"
    levels = "".join(
        f"<li>{html.escape(level_text(series, n))}</li>" for n in range(len(series.levels))
    )
    return f"<h3>{html.escape(title)}</h3>{_drawing(series)}<ul class=levels>{levels}</ul>"


def _drawing(series: Series) -> str:
    skipped = max(0, len(series.runs) - MOST_RUNS)
    values = [run.value for run in series.runs][skipped:]
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    step = (WIDTH - 2 * PAD) / max(1, len(values) - 1)

    def x(place: int) -> float:
        return PAD + step * place

    def y(value: float) -> float:
        return HEIGHT - PAD - (HEIGHT - 2 * PAD) * (value - low) / span

    dots = "".join(
        f"<circle class=run cx={x(n):.1f} cy={y(v):.1f} r=2 />" for n, v in enumerate(values)
    )
    lines = "".join(
        f"<line class=level x1={x(max(0, level.first - skipped)):.1f} x2={x(level.last - skipped):.1f}"
        f" y1={y(level.value):.1f} y2={y(level.value):.1f} />"
        for level in series.levels
        if level.last >= skipped
    )
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img>{dots}{lines}</svg>"
