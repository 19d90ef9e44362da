"""Reduce nightly runs to one value per night, and find series that need another run.

The values are cached in a file next to the result store, because computing them takes seconds per run.

`suspicions` returns the suspected losses with the two commits to compare directly, and `confirms_loss` judges that
comparison. Nights of one host share its moods, and so do repetitions within a night. A comparison of the last good
commit with tonight's, interleaved, shares none of them. So the rate of false alarms is that of one paired test, LEVEL
for each suspicion, however much nights depend on each other.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.account import THROUGHPUT, TOTAL_CPU, lacks_total_cpu
from perfrunner.analysis.cases import primary_metrics, type_of
from perfrunner.analysis.model import Interval
from perfrunner.analysis.series import (
    History,
    Key,
    Series,
    leaning,
    resolution_of,
    scaled,
    verdict_of,
)
from perfrunner.domain import Case

if TYPE_CHECKING:
    from perfrunner.analysis.model import Row
    from perfrunner.results import ExperimentData, ExperimentRecord, ExperimentSummary
    from perfrunner.spec.metrics import MetricType


FILE = "history-cache.jsonl"
SCHEMA = 2  # of a line of the file; raised when the computation of effects changes


@dataclass(frozen=True)
class NightRow:
    """A variant's metric in a case on one night.

    `effect` (ratio or difference) is None for the baseline and if there is no effect. `ci95` is the interval
    of the effect, or of the mean if there is no effect.
    """

    case: Case
    variant: str
    metric: MetricType
    build_id: str
    mean: float
    effect: float | None
    blocks: int
    ci95: Interval | None = None


@dataclass(frozen=True)
class Night:
    """A finished run: its record with spec and hosts, and its results."""

    record: ExperimentRecord
    rows: tuple[NightRow, ...]

    @property
    def experiment(self) -> str:
        """The run's id."""
        return self.record.id

    @property
    def created_at(self) -> datetime:
        """The time at which the run began."""
        return self.record.created_at

    @property
    def baseline(self) -> str:
        """The name of the baseline."""
        return str(self.record.spec_json.get("baseline", ""))


def followed_metrics(record: ExperimentRecord) -> tuple[str, ...]:
    """Return the primary metrics of the run's spec, and those of the total CPU that is judged next to throughput."""
    primary = primary_metrics(record.spec_json)
    return (*primary, *TOTAL_CPU) if lacks_total_cpu(primary) else primary


def night_of(data: ExperimentData, metrics: Sequence[str]) -> Night:
    """Compute the results of a run from its trials, for `metrics` only.

    Next to throughput, each case has one metric of the total CPU: that which its report judges.
    """
    from perfrunner.analysis.compare import compare

    trials = tuple(
        replace(t, metrics={name: t.metrics[name] for name in metrics if name in t.metrics})
        for t in data.trials
    )
    judged = TOTAL_CPU if THROUGHPUT in metrics else ()
    rows = tuple(
        NightRow(
            case=row.case,
            variant=row.variant,
            metric=row.metric,
            build_id=row.build_id,
            mean=row.summary.mean,
            effect=None if row.effect is None else row.effect.estimate,
            blocks=row.summary.n,
            ci95=row.summary.ci95 if row.effect is None else row.effect.ci95,
        )
        for row in compare(replace(data, trials=trials)).rows
        if row.metric.id not in judged or row.primary or row.companion
    )
    return Night(data.experiment, rows)


def nights(
    summaries: Iterable[ExperimentSummary],
    load: Callable[[str], ExperimentData],
    metrics: Sequence[str],
    directory: Path | None,
) -> list[Night]:
    """Return the results of the finished runs among `summaries`.

    Results for followed metrics are read from the cache file in `directory`, or computed and added to it.
    Others are computed.
    """
    finished = [s for s in summaries if s.experiment.state == "done"]
    cached = {} if directory is None else _read(directory / FILE)
    result, fresh = [], []
    for summary in finished:
        record = summary.experiment
        key = _key(summary)
        line = cached.get(record.id)
        if line is not None and line["key"] == key and set(metrics) <= set(line["metrics"]):
            rows = tuple(_row(row) for row in line["rows"])
            result.append(Night(record, tuple(r for r in rows if r.metric.id in metrics)))
            continue
        night = night_of(load(record.id), metrics)
        result.append(night)
        if set(metrics) <= set(followed_metrics(record)):
            fresh.append(
                {
                    "id": record.id,
                    "key": key,
                    "metrics": list(metrics),
                    "rows": [_plain(r) for r in night.rows],
                }
            )
    if fresh and directory is not None:
        _append(directory / FILE, fresh)
    return result


def keep_night(data: ExperimentData, directory: Path | None) -> None:
    """Add the results of a run that has just ended to the cache file in `directory`."""
    from perfrunner.results import ExperimentSummary

    if directory is not None:
        ended = Counter(trial.status for trial in data.trials)
        summary = ExperimentSummary(
            data.experiment, ended["ok"], ended["discarded"], ended["failed"]
        )
        nights([summary], lambda _: data, followed_metrics(data.experiment), directory)


def _key(summary: ExperimentSummary) -> list[Any]:
    return [SCHEMA, summary.ok, summary.discarded, summary.failed]


def _plain(row: NightRow) -> list[Any]:
    return [
        *row.case,
        row.variant,
        row.metric.id,
        row.build_id,
        row.mean,
        row.effect,
        row.blocks,
        row.ci95,
    ]


def _row(plain: Sequence[Any]) -> NightRow:
    workload, bucket, variant, metric, build_id, mean, effect, blocks, ci95 = plain
    return NightRow(
        Case(workload, bucket),
        variant,
        type_of(metric),
        build_id,
        mean,
        effect,
        blocks,
        None if ci95 is None else (ci95[0], ci95[1]),
    )


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the latest line of each run. Torn lines and lines of another schema are ignored."""
    latest = {}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                line = json.loads(text)
                if line["key"][0] == SCHEMA:
                    latest[str(line["id"])] = line
    return latest


def _append(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines to the cache. A results directory that is not writable is no error."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


# Share of the nights without any change on which a spec's history may look suspicious, per number of nights examined.
SUSPICION = 0.04


@dataclass(frozen=True)
class Suspect:
    """A series that may have become worse. `p` is the one-sided probability of its last runs without a change."""

    series: Series
    p: float

    def __str__(self) -> str:
        series = self.series
        against = "" if series.kind is None else f" against {series.baseline}"
        return (
            f"{series.metric.id} of {series.variant}{against} on {series.case} leans to worse"
            f" (p = {self.p:.2g})"
        )


def suspects(histories: Sequence[History]) -> list[Suspect]:
    """Return the suspicious series of all metrics of a spec, the least likely by chance first.

    A level change that was reported is not suspected again.
    """
    every = [series for history in histories for series in history.series]
    suspicious = []
    for series in every:
        values = scaled([run.value for run in series.runs], series.kind)
        if not values:
            continue
        p, rose = leaning(
            values, series.levels[-1].first, resolution_of(series.metric, series.kind)
        )
        if p < SUSPICION / len(every) and verdict_of(series.metric, rose) == "worse":
            suspicious.append(Suspect(series, p))
    return sorted(suspicious, key=lambda suspect: suspect.p)


BLOCKS = 40
LEVEL = 0.002  # of a comparison, on the side of a loss
# Nights between the good commit and tonight, or the night on which a reported change seems to begin. More than a loss
# stays unsuspected, and more than that beginning is misplaced: for a loss of 2 standard deviations, it is late in a
# quarter of cases, and the commit of the night before would have the loss (tools/evidence/simulated.py).
BACK = 10


@dataclass(frozen=True)
class Suspicion:
    """A series that may have become worse, and the commits of its last good night and of tonight."""

    series: Series
    good: str
    bad: str

    @property
    def key(self) -> Key:
        return self.series.key


def suspicions(histories: Sequence[History], since: datetime) -> list[Suspicion]:
    """Return the suspicions that a comparison can decide: changes for the worse known after `since`, and leanings.

    There is none for a series whose commits are unknown or had changed content, or did not change.
    """
    pairs = [*_of_alarms(histories, since), *((it.series, None) for it in suspects(histories))]
    by_key: dict[Key, Suspicion] = {}
    for series, first in pairs:
        begun = len(series.runs) - 1 if first is None else first
        start = max(level.first for level in series.levels if level.first < max(1, begun))
        good = max(start, begun - BACK)
        commits = series.runs[good].commit, series.runs[-1].commit
        if _clean(commits[0]) and _clean(commits[1]) and commits[0] != commits[1]:
            suspicion = Suspicion(series, str(commits[0]), str(commits[1]))
            by_key.setdefault(suspicion.key, suspicion)
    return list(by_key.values())


def confirms_loss(row: Row) -> bool | None:
    """Return whether a comparison with the good commit as the baseline confirms a loss; None if it cannot tell."""
    effect = row.effect
    if effect is None or effect.p is None or row.verdict == "not comparable":
        return None
    worse = verdict_of(row.metric, effect.estimate > effect.neutral) == "worse"
    return worse and effect.p <= 2 * LEVEL


def _of_alarms(
    histories: Sequence[History], since: datetime
) -> Iterator[tuple[Series, int | None]]:
    """Yield each series that a new alarm for the worse is about, and the run that began the change."""
    for history in histories:
        for alarm in history.known_after(since):
            for series in history.series if alarm.verdict == "worse" else ():
                runs = [run.experiment for run in series.runs]
                if series.key in alarm.keys and alarm.first in runs:
                    yield series, runs.index(alarm.first)


def _clean(commit: str | None) -> bool:
    return commit is not None and not commit.endswith("-dirty")
