"""Verify a suspected loss of a nightly series: which two commits to compare directly, and what that decides.

Nights of one host share its moods, and so do repetitions within a night. A comparison of the last good commit with
tonight's, interleaved, shares none of them. So the rate of false alarms is that of one paired test, LEVEL for each
suspicion, however much nights depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.analysis.nights import suspects
from perfrunner.analysis.series import turn_of

if TYPE_CHECKING:
    from perfrunner.analysis.model import Row
    from perfrunner.analysis.series import Alarm, History, Series

BLOCKS = 40
LEVEL = 0.002  # of a comparison, on the side of a loss
BACK = 10  # nights between tonight and the good commit: more than a loss stays unsuspected

Key: TypeAlias = tuple[str, str, str, str]  # metric, variant, workload, bucket type


@dataclass(frozen=True)
class Suspicion:
    """A series that may have become worse, and the commits of its last good night and of tonight."""

    series: Series
    good: str
    bad: str

    @property
    def key(self) -> Key:
        series = self.series
        return (series.metric.id, series.variant, *series.case)


def suspicions(histories: Sequence[History], since: datetime) -> list[Suspicion]:
    """Return the suspicions that a comparison can decide: changes for the worse known after `since`, and leanings.

    There is none for a series whose commits are unknown or had changed content, or did not change.
    """
    pairs = [*_of_alarms(histories, since), *((it.series, None) for it in suspects(histories))]
    by_key: dict[Key, Suspicion] = {}
    for series, first in pairs:
        start = series.levels[-1].first
        good = max(start, len(series.runs) - 1 - BACK) if first is None else max(0, first - 1)
        commits = series.runs[good].commit, series.runs[-1].commit
        if _clean(commits[0]) and _clean(commits[1]) and commits[0] != commits[1]:
            suspicion = Suspicion(series, str(commits[0]), str(commits[1]))
            by_key.setdefault(suspicion.key, suspicion)
    return list(by_key.values())


def confirms_loss(row: Row) -> bool:
    """Return whether a comparison with the good commit as the baseline confirms a loss."""
    effect = row.effect
    if effect is None or effect.p is None or row.verdict == "not comparable":
        return False
    worse = turn_of(row.metric, effect.estimate > effect.neutral) == "worse"
    return worse and effect.p <= 2 * LEVEL


def _of_alarms(
    histories: Sequence[History], since: datetime
) -> Iterator[tuple[Series, int | None]]:
    """Yield the series that each new alarm for the worse is most about, and the run that began the change."""
    for history in histories:
        for alarm in history.known_after(since):
            if alarm.turn == "worse" and (series := _series_of(history, alarm)) is not None:
                runs = [run.experiment for run in series.runs]
                yield series, runs.index(alarm.first)


def _series_of(history: History, alarm: Alarm) -> Series | None:
    cases = alarm.moved or alarm.cases
    return next(
        (
            series
            for series in history.series
            if series.variant == alarm.variant
            and series.case in cases
            and any(run.experiment == alarm.first for run in series.runs)
        ),
        None,
    )


def _clean(commit: str | None) -> bool:
    return commit is not None and not commit.endswith("-dirty")
