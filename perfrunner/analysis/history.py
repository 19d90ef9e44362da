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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.cells import clean_blocks
from perfrunner.analysis.compare import in_spec_order
from perfrunner.analysis.estimate import NotARatioError, paired_estimate
from perfrunner.analysis.model import ALPHA, Cell, EffectKind
from perfrunner.analysis.noise import is_aa
from perfrunner.analysis.plan import AnalysisPlan, type_of

if TYPE_CHECKING:
    from datetime import datetime

    from perfrunner.results import ExperimentData
    from perfrunner.spec.metrics import MetricType

MIN_RUNS = 3  # of a level, before it is believed to be one
LEAST_P = 0.01  # of a U within two standard deviations of its mean, whatever the sizes
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
    """Every series of a metric. `left_out`: runs whose workload was another one than the newest run's."""

    spec_name: str
    metric: str
    series: tuple[Series, ...]
    left_out: tuple[str, ...]


def history(experiments: Sequence[ExperimentData], metric: str) -> History:
    """Over finished runs of one spec, oldest first; A/A runs do not count. The newest says what is compared."""
    finished = [
        e for e in experiments if e.experiment.state == "done" and not is_aa(e.experiment.spec_json)
    ]
    if not finished:
        return History("", metric, (), ())
    newest = finished[-1]
    like_it = [e for e in finished if _workloads(e) == _workloads(newest)]
    found: dict[Place, list[_Found]] = {}
    for data in like_it:
        for one in _values(data, metric):
            found.setdefault((one.cell, one.variant), []).append(one)
    of_newest = newest.experiment.id
    kept = {place: its for place, its in found.items() if its[-1].run.experiment == of_newest}
    baseline = str(newest.experiment.spec_json.get("baseline", ""))
    return History(
        spec_name=newest.experiment.name,
        metric=metric,
        series=tuple(_series(place, its, baseline, len(kept)) for place, its in kept.items()),
        left_out=tuple(e.experiment.id for e in finished if e not in like_it),
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


@dataclass(frozen=True)
class _Found:
    """One place of one run. `kind` is None of the baseline's own mean."""

    cell: Cell
    variant: str
    metric: MetricType
    kind: EffectKind | None
    run: Run


def _values(data: ExperimentData, metric: str) -> Iterator[_Found]:
    """As `compare` has them, without its intervals and tests: in the spec's order."""
    plan, kind = AnalysisPlan.of(data), type_of(metric)
    builds = {t.variant: t.build_id for t in data.trials}
    builds |= {b.variant: b.build_id for b in data.builds}
    for blocks in in_spec_order(clean_blocks(data.trials), plan):
        for variant in plan.variants:
            values = blocks.values(metric, variant)
            paired = blocks.paired(metric, plan.baseline, variant)
            if not values:
                continue
            raw = variant == plan.baseline
            try:
                if not raw and not paired.base:
                    continue
                value = (
                    sum(values.values()) / len(values)
                    if raw
                    else paired_estimate(kind.effect, paired.base, paired.other)
                )
            except NotARatioError:
                continue
            run = Run(
                data.experiment.id,
                data.experiment.created_at,
                builds.get(variant, ""),
                value,
                len(values),
            )
            yield _Found(blocks.cell, variant, kind, None if raw else kind.effect, run)


def _workloads(data: ExperimentData) -> object:
    return data.experiment.spec_json.get("workloads")


def _series(place: Place, found: Sequence[_Found], baseline: str, series: int) -> Series:
    cell, variant = place
    kinds = {one.kind for one in found}
    return Series(
        cell=cell,
        variant=variant,
        baseline=baseline,
        metric=found[-1].metric,
        kind=kinds.pop() if len(kinds) == 1 else None,
        runs=tuple(one.run for one in found),
        levels=_levels([one.run.value for one in found], series),
    )


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
    p = min((_p(values[low:at], values[at:high]) for at in _worth(values, low, high)), default=1.0)
    adjusted = min(1.0, p * len(places) * series)
    if adjusted >= ALPHA:
        return None
    return min(places, key=lambda at: _spread(values[low:at]) + _spread(values[at:high])), adjusted


def _worth(values: Sequence[float], low: int, high: int) -> list[int]:
    """The places that are worth a test: with as many as these, one whose U is within two standard deviations of its
    mean cannot have a p below ALPHA once it is multiplied by their number (it is above 0.01 for any sizes).
    """
    import numpy as np
    from scipy import stats

    places = np.arange(low + MIN_RUNS, high - MIN_RUNS + 1)
    if len(places) < ALPHA / LEAST_P:
        return [int(place) for place in places]
    ranks = np.cumsum(stats.rankdata(values[low:high]))
    before = places - low
    after = high - places
    u = ranks[before - 1] - before * (before + 1) / 2
    n = high - low
    _, ties = np.unique(values[low:high], return_counts=True)
    tied = float(np.sum(ties**3 - ties)) / (n * (n - 1))
    sd = np.sqrt(before * after * (n + 1 - tied) / 12)
    return [int(place) for place in places[np.abs(u - before * after / 2) >= 2 * sd]]


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
