"""A metric over many runs of one spec, and where its level changed.

What is followed is each run's paired effect against the baseline, not the raw value: a host that became slower moves
both arms. The baseline's own mean is followed too, as what the host (or a change of the engine that hits all) did.

Change points by binary segmentation: at every place that leaves MIN_RUNS on both sides the runs before and after are
compared by the Mann-Whitney U test. There is a change when the smallest p, times the number of places and of series
looked at (Bonferroni), is below ALPHA; it is where the runs lie closest to the medians of both sides (the test's own
best place favours equal halves). Then both sides are searched in the same way. Rank tests because nightly series have
outliers, and a t test over them alarms too often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.circumstances import (
    differences,
    shared_circumstances,
    shortened,
    variant_circumstances,
    workload_circumstances,
)
from perfrunner.analysis.compare import compare
from perfrunner.analysis.model import ALPHA, Cell, EffectKind, Row
from perfrunner.analysis.noise import is_aa

if TYPE_CHECKING:
    from datetime import datetime

    from perfrunner.results import ExperimentData, ExperimentRecord
    from perfrunner.spec.metrics import MetricType

MIN_RUNS = 3  # of a level, before it is believed to be one
MOST_EXACT = 20  # runs of the smaller side; above it the normal approximation is as good

Place: TypeAlias = tuple[Cell, str]  # a cell and a variant
Turn: TypeAlias = Literal["better", "worse", "changed"]  # changed: the metric has no direction


@dataclass(frozen=True)
class Run:
    """One run of the spec. `value`: the effect (ratio or difference); of the baseline the mean in the metric's unit."""

    experiment: str
    created_at: datetime
    build_id: str
    value: float
    blocks: int


@dataclass(frozen=True)
class Level:
    """Runs `first` to `last` (both included) at one level; `p` of the change to it, None for the first."""

    first: int
    last: int
    value: float  # the median
    p: float | None

    @property
    def runs(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Series:
    """One variant in one cell, oldest run first. `kind` is None for the baseline's raw values."""

    cell: Cell
    variant: str
    baseline: str
    metric: MetricType
    kind: EffectKind | None
    runs: tuple[Run, ...]
    levels: tuple[Level, ...]

    def turn(self, number: int = -1) -> Turn | None:
        """What level `number` (the latest) is beside the one before it; None where there is none before."""
        if self.levels[number].p is None:
            return None
        if self.metric.direction == "none":
            return "changed"
        rose = self.levels[number].value > self.levels[number - 1].value
        return "better" if rose == (self.metric.direction == "higher") else "worse"


@dataclass(frozen=True)
class History:
    """Every series of a metric.

    `left_out`: runs that were not measured as the newest one was, in some series or in all; `why`: in what they
    differ, a line for all runs with the same differences.
    """

    spec_name: str
    metric: str
    series: tuple[Series, ...]
    left_out: tuple[str, ...]
    why: tuple[str, ...] = ()


def history(experiments: Sequence[ExperimentData], metric: str) -> History:
    """Over finished runs of one spec, oldest first; A/A runs do not count. The newest says what is compared.

    A run whose hosts, engine settings or schedule were others is no part of any series; one in which a workload or a
    variant (or the baseline) was defined otherwise is no part of that one's.
    """
    finished = [
        e for e in experiments if e.experiment.state == "done" and not is_aa(e.experiment.spec_json)
    ]
    if not finished:
        return History("", metric, (), ())
    newest = finished[-1]
    unlike = _Unlike(newest)
    rows: dict[Place, list[tuple[ExperimentData, Row]]] = {}
    for data in finished:
        if unlike.as_a_whole(data):
            continue
        for row in compare(data).rows:
            if row.metric.id == metric and not unlike.in_series(data, row):
                rows.setdefault((row.cell, row.variant), []).append((data, row))
    latest = {(row.cell, row.variant) for row in compare(newest).rows if row.metric.id == metric}
    kept = {place: found for place, found in rows.items() if place in latest}
    baseline = str(newest.experiment.spec_json.get("baseline", ""))
    return History(
        spec_name=newest.experiment.name,
        metric=metric,
        series=tuple(_series(place, found, baseline, len(kept)) for place, found in kept.items()),
        left_out=tuple(unlike.found),
        why=unlike.lines(),
    )


def change_points(values: Sequence[float], series: int = 1) -> list[tuple[int, float]]:
    """(index of the first run of the new level, adjusted p), in order; `series`: how many are looked at together."""
    found: list[tuple[int, float]] = []
    open_ends = [(0, len(values))]
    while open_ends:
        low, high = open_ends.pop()
        split = _clearest(values, low, high, series)
        if split is not None:
            found.append(split)
            open_ends += [(low, split[0]), (split[0], high)]
    return sorted(found)


class _Unlike:
    """In what older runs differ from the newest one, by their ids."""

    def __init__(self, newest: ExperimentData) -> None:
        self.found: dict[str, list[str]] = {}
        self._newest = newest.experiment
        self._shared = shared_circumstances(newest.experiment)

    def as_a_whole(self, data: ExperimentData) -> bool:
        return self._note(data, shared_circumstances(data.experiment), self._shared)

    def in_series(self, data: ExperimentData, row: Row) -> bool:
        return self._note(data, *(self._series(r, row) for r in (data.experiment, self._newest)))

    def lines(self) -> tuple[str, ...]:
        alike: dict[str, list[str]] = {}
        for run, differs in self.found.items():
            alike.setdefault(shortened(differs), []).append(run)
        return tuple(
            f"{runs[0] if len(runs) == 1 else f'{len(runs)} runs, {runs[0]} to {runs[-1]}'}: {text}"
            for text, runs in alike.items()
        )

    def _series(self, record: ExperimentRecord, row: Row) -> dict[str, str]:
        baseline = str(record.spec_json.get("baseline", ""))
        return {
            "baseline": baseline,
            **workload_circumstances(record, row.cell.workload),
            **variant_circumstances(record, baseline),
            **variant_circumstances(record, row.variant),
        }

    def _note(self, data: ExperimentData, then: Mapping[str, str], now: Mapping[str, str]) -> bool:
        if differs := differences(then, now):
            known = self.found.setdefault(data.experiment.id, [])
            known += [line for line in differs if line not in known]
        return bool(differs)


def _series(
    place: Place, found: list[tuple[ExperimentData, Row]], baseline: str, series: int
) -> Series:
    cell, variant = place
    raw = variant == baseline
    measured = [(data, row) for data, row in found if raw or row.effect is not None]
    runs = tuple(_run(data, row, raw=raw) for data, row in measured)
    kinds = {row.effect.kind for _, row in measured if row.effect is not None}
    return Series(
        cell=cell,
        variant=variant,
        baseline=baseline,
        metric=found[-1][1].metric,
        kind=kinds.pop() if len(kinds) == 1 else None,
        runs=runs,
        levels=_levels([run.value for run in runs], series),
    )


def _run(data: ExperimentData, row: Row, *, raw: bool) -> Run:
    value = row.summary.mean if raw or row.effect is None else row.effect.estimate
    return Run(data.experiment.id, data.experiment.created_at, row.build_id, value, row.summary.n)


def _levels(values: Sequence[float], series: int) -> tuple[Level, ...]:
    import numpy as np

    if not values:
        return ()
    changes = change_points(values, series)
    starts: list[tuple[int, float | None]] = [(0, None), *changes]
    ends = [*(start for start, _ in changes), len(values)]
    return tuple(
        Level(first, end - 1, float(np.median(values[first:end])), p)
        for (first, p), end in zip(starts, ends, strict=True)
    )


def _clearest(
    values: Sequence[float], low: int, high: int, series: int
) -> tuple[int, float] | None:
    places = range(low + MIN_RUNS, high - MIN_RUNS + 1)
    if not places:
        return None
    p = min(_p(values[low:at], values[at:high]) for at in places)
    adjusted = min(1.0, p * len(places) * series)
    if adjusted >= ALPHA:
        return None
    return min(places, key=lambda at: _spread(values[low:at]) + _spread(values[at:high])), adjusted


def _spread(values: Sequence[float]) -> float:
    import numpy as np

    return float(np.abs(np.asarray(values) - np.median(values)).sum())


def _p(before: Sequence[float], after: Sequence[float]) -> float:
    from scipy import stats

    tied = len({*before, *after}) < len(before) + len(after)
    exact = not tied and min(len(before), len(after)) <= MOST_EXACT
    return float(
        stats.mannwhitneyu(before, after, method="exact" if exact else "asymptotic").pvalue
    )
