"""Write a history as text (a line of bars and the levels of each series) or JSON, and the mail and trend of a night."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.account import COUNTERPARTS
from perfrunner.report.html import render_page
from perfrunner.report.numbers import ARROWS, MARKS, change, p_text, scale_of
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfrunner.analysis.series import Alarm, History, Level, Run, Series


BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 80
SCHEMA = 3


def history_text(histories: Sequence[History]) -> str:
    """Return a paragraph for each series; the baseline's raw values come last for each metric."""
    return "\n".join(_text(history) for history in histories)


def _text(history: History) -> str:
    if not history.series:
        return f"no run has {history.metric}\n"
    ordered = sorted(history.series, key=lambda s: s.variant == s.baseline)
    return "\n".join("\n".join(_paragraph(series)) + "\n" for series in ordered)


def history_document(histories: Sequence[History]) -> dict[str, Any]:
    """Return every run, level and reported change as plain values. `metric` is null for several metrics."""
    first = histories[0]
    return {
        "schema": SCHEMA,
        "spec": first.spec_name,
        "metric": first.metric if len(histories) == 1 else None,
        "newest": first.newest,
        "left_out": list(dict.fromkeys(run for history in histories for run in history.left_out)),
        "why_left_out": list(dict.fromkeys(line for history in histories for line in history.why)),
        "series": [_document(series) for history in histories for series in history.series],
        "alarms": [_alarm(alarm, history) for history in histories for alarm in history.alarms],
    }


def _alarm(alarm: Alarm, history: History) -> dict[str, Any]:
    return {
        "metric": alarm.metric.id,
        "variant": alarm.variant,
        "baseline": alarm.baseline,
        "cases": [list(case) for case in alarm.cases],
        "verdict": alarm.verdict,
        "first": alarm.first,
        "first_at": alarm.first_at.isoformat(),
        "known": alarm.known,
        "new": alarm in history.news,
        "p": alarm.p,
        "text": str(alarm),
    }


def _paragraph(series: Series) -> Iterator[str]:
    arrow = ARROWS[series.metric.direction]
    against = "" if series.kind is None else f" against {series.baseline}"
    first, last = series.runs[0], series.runs[-1]
    days = dict.fromkeys(f"{run.created_at:%Y-%m-%d}" for run in (first, last))
    runs = count_of(len(series.runs), "run")
    yield f"{series.metric.id} {arrow}  {series.case}: {series.variant}{against}, {runs}, {' to '.join(days)}"
    yield f"  {_bars([run.value for run in series.runs])}"
    for number in range(len(series.levels)):
        yield f"  {level_text(series, number)}"


def level_text(series: Series, number: int) -> str:
    """Return a level in a line, with the change that started it."""
    return f"{_level(series, series.levels[number])}{_change(series, number)}"


def _level(series: Series, level: Level) -> str:
    first = series.runs[level.first]
    return f"{_value(series, level):>14}  {count_of(level.runs, 'run'):>8} from {first.created_at:%Y-%m-%d}"


def _change(series: Series, number: int) -> str:
    """Return the change that started a level, with its run and build."""
    level, verdict = series.levels[number], series.verdict(number)
    if verdict is None:
        return ""
    run, before = series.runs[level.first], series.runs[level.first - 1]
    build = f", build {before.build_id} → {run.build_id}" if run.build_id != before.build_id else ""
    mark = MARKS.get(verdict, "◆")
    return f"  {mark} {verdict} ({p_text('p', level.p)}) since {run.experiment}{build}{_commits(before, run)}"


def _commits(before: Run, run: Run) -> str:
    """Return the range of commits of a change: `, commit 1a2b3c4d5e6f → 6f5e4d3c2b1a "title"`."""
    if run.commit is None or run.commit == before.commit:
        return ""
    return f', commit {before.commit or "unknown"} → {run.commit} "{run.title}"'


@dataclass(frozen=True)
class _Change:
    kind: str
    estimate: float
    ci95: tuple[float, float] | None


def run_text(series: Series, run: Run) -> str:
    """Return a run's change with its interval, as in reports."""
    assert series.kind is not None
    return change(
        _Change(series.kind, run.value, run.ci95),
        series.metric,
        scale_of(series.metric, run.value),
    )


def _value(series: Series, level: Level) -> str:
    """Return the value of a level, in as many digits as the median interval of its runs justifies."""
    value, scale = level.value, scale_of(series.metric, level.value)
    if series.kind is None:
        return scale.text(value)
    runs = series.runs[level.first : level.last + 1]
    known = [run for run in runs if run.ci95 is not None]
    ci95 = None
    if known:
        middle = sorted(known, key=lambda run: run.ci95[1] - run.ci95[0] if run.ci95 else 0.0)
        ci95 = middle[len(middle) // 2].ci95
    return change(_Change(series.kind, value, ci95), series.metric, scale).partition(" [")[0]


def _bars(values: Sequence[float]) -> str:
    """Return bars for the newest MOST_BARS runs, scaled from their minimum to their maximum."""
    shown = values[-MOST_BARS:]
    low, high = min(shown), max(shown)
    if high == low:
        return BARS[0] * len(shown)
    return "".join(BARS[round((v - low) / (high - low) * (len(BARS) - 1))] for v in shown)


def _document(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric.id,
        "workload": series.case.workload,
        "bucket": series.case.bucket,
        "variant": series.variant,
        "baseline": series.baseline,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
        "effect": series.kind,
        "runs": [
            {"experiment": run.experiment, "created_at": run.created_at.isoformat(), "build_id": run.build_id,
             "value": run.value, "ci95": None if run.ci95 is None else list(run.ci95),
             "blocks": run.blocks, "commit": run.commit, "title": run.title}
            for run in series.runs
        ],
        "levels": [
            {"first": level.first, "last": level.last, "value": level.value, "p": level.p, "known": level.known}
            for level in series.levels
        ],
        "verdict": series.verdict(),
    }  # fmt: skip


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
        return bool(self.news or self.restarted) or self.failure_changed

    @property
    def failure_changed(self) -> bool:
        """Return whether the run fails since tonight, fails differently (`exit code 3: ...`), or runs again."""
        return self.failed.partition(":")[0] != self.before.partition(":")[0]

    @property
    def subject(self) -> str:
        if self.failed and self.failure_changed:
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
    if night.failure_changed:
        lines.insert(
            0,
            f"{night.name} failed: {night.failed}"
            if night.failed
            else f"{night.name} {night.cured}",
        )
    return lines


def _details(night: SpecNight) -> list[str]:
    shown = [*night.details]
    if night.failed and night.failure_changed:
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
