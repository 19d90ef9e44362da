"""Write a history as text (a line of bars and the levels of each series) or as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import ARROWS, MARKS, change, p_text, scale_of
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfrunner.analysis.series import Alarm, History, Level, Run, Series

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 80
SCHEMA = 2


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
        "turn": alarm.turn,
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
    level, turn = series.levels[number], series.turn(number)
    if turn is None:
        return ""
    run, before = series.runs[level.first], series.runs[level.first - 1]
    build = f", build {before.build_id} → {run.build_id}" if run.build_id != before.build_id else ""
    mark = MARKS.get(turn, "◆")
    return f"  {mark} {turn} ({p_text('p', level.p)}) since {run.experiment}{build}{_commits(before, run)}"


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
        "turn": series.turn(),
    }  # fmt: skip
