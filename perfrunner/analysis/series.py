"""Detect changes of level in the history of one metric over the runs of a spec."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from perfrunner.analysis.inference import special
from perfrunner.analysis.model import EffectKind, Interval
from perfrunner.domain import Case

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from perfrunner.spec.metrics import MetricType

    Array = NDArray[np.float64]

# Numbers of nights examined together, and each one's share of the false alarms.
WINDOWS = {5: 0.5, 10: 0.25, 20: 0.25}
LEANING = (2, 3, 5)  # numbers of last nights that may raise a suspicion
REFERENCE = 60  # most nights of the level before
LEAST_NIGHTS = 8  # fewer do not define a level
CUT = 3.0
SUDDEN = 3  # nights in a row
FAR = 4.0
# Largest share of the nights of the level before that lie as far away. Counts of rare events are mostly zero, so that
# their robust spread is zero as well, and each event is far away.
RARE = 0.05
TO_SD = 1.4826  # factor from median absolute distance to standard deviation, for normal noise
ROUNDING = 1e-12  # share of the values
# Spread. No value, not even one in units of such a spread, is infinite when it is divided by this.
SMALLEST = 1e-100


@dataclass(frozen=True)
class Change:
    """A change of level. `first` is the first night of the new level, `known` the night on which it was found."""

    first: int
    known: int
    rose: bool
    p: float


def changes(values: Sequence[float], p_look: float, resolution: float = 0.0) -> list[Change]:
    """Return the changes of level in order.

    `p_look` is the one-sided probability of a false finding on one night. `resolution` is a lower bound of
    the noise, for metrics that repeat exactly.
    """
    data = np.asarray(values, dtype=np.float64)
    result: list[Change] = []
    start, spread = 0, None
    while (change := _first(data, start, p_look, resolution, spread)) is not None:
        result.append(change)
        before = data[None, max(start, change.first - REFERENCE) : change.first]
        if before.shape[1] >= LEAST_NIGHTS:
            spread = float(_usual(before, resolution)[1][0, 0])
        start = change.first
    return result


def leaning(values: Sequence[float], start: int, resolution: float = 0.0) -> tuple[float, bool]:
    """Return how unlikely the last few nights of the level that began at `start` are, and whether they are high.

    The probability is one-sided; (1.0, False) while the level is too young. It has no guaranteed false-alarm
    rate: it only suggests where another run is worth its time.
    """
    data = np.asarray(values, dtype=np.float64)
    results = [(1.0, False)]
    for window in LEANING:
        end = len(data) - window
        references = data[None, max(start, end - REFERENCE) : max(end, 0)]
        if references.shape[1] >= LEAST_NIGHTS:
            results.append(_p_of(references, data[None, end:], resolution))
    return min(results)


def _p_of(references: Array, latest: Array, resolution: float) -> tuple[float, bool]:
    score = float(_scores(references, latest, resolution)[0])
    return float(special().stdtr(references.shape[1] - 1, -abs(score))), score > 0


def _first(
    data: Array, start: int, p_look: float, resolution: float, spread: float | None
) -> Change | None:
    """Return the change that became known first after `start`, the beginning of the current level.

    `spread` is that of the previous level; None if there is none.
    """
    candidates = [
        _of_means(data, start, window, p_look * share, resolution)
        for window, share in WINDOWS.items()
    ]
    candidates.append(_sudden(data, start, resolution))
    if spread is not None:
        candidates.append(_sudden_while_young(data, start, resolution, spread))
    return min(
        (change for change in candidates if change is not None),
        key=lambda change: change.known,
        default=None,
    )


def _of_means(
    data: Array, start: int, window: int, p_look: float, resolution: float
) -> Change | None:
    for nights, references, latest in _looks(data, start, window):
        scores = _scores(references, latest, resolution)
        p = special().stdtr(references.shape[1] - 1, -np.abs(scores))
        hits = np.flatnonzero(p < p_look)
        if len(hits):
            first = hits[0]
            known = int(nights[first])
            begun = _begin(data, max(start, known - 2 * window + 1), known)
            return Change(begun, known, bool(scores[first] > 0), float(p[first]))
    return None


def _sudden(data: Array, start: int, resolution: float) -> Change | None:
    for nights, references, latest in _looks(data, start, SUDDEN):
        middle, scale, _ = _usual(references, resolution)
        away, usual = (latest - middle) / scale, (references - middle) / scale
        rose, fell = away.min(axis=1), away.max(axis=1)
        rare_up = (usual >= rose[:, None]).mean(axis=1) <= RARE
        rare_down = (usual <= fell[:, None]).mean(axis=1) <= RARE
        hits = np.flatnonzero(((rose > FAR) & rare_up) | ((fell < -FAR) & rare_down))
        if len(hits):
            first = hits[0]
            known = int(nights[first])
            p = float(special().stdtr(references.shape[1] - 1, -FAR)) ** SUDDEN
            return Change(known - SUDDEN + 1, known, bool(away[first, 0] > 0), p)
    return None


def _sudden_while_young(data: Array, start: int, resolution: float, spread: float) -> Change | None:
    for night in range(start + 2 * SUDDEN - 1, min(start + LEAST_NIGHTS + SUDDEN - 1, len(data))):
        begun = night - SUDDEN + 1
        middle, scale, _ = _usual(data[None, start:begun], resolution)
        away = (data[begun : night + 1] - middle[0]) / max(float(scale[0, 0]), spread)
        if away.min() > FAR or away.max() < -FAR:
            p = float(special().stdtr(LEAST_NIGHTS - 1, -FAR)) ** SUDDEN
            return Change(begun, night, bool(away[0] > 0), p)
    return None


def _looks(
    data: Array, start: int, window: int
) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """Yield (nights, their references, their last `window` nights) in order, with a row per night.

    One night at a time while the level is young, the rest at once.
    """
    young = start + LEAST_NIGHTS + window - 1
    full = start + REFERENCE + window - 1
    for night in range(young, min(full, len(data))):
        end = night - window + 1
        yield np.array([night]), data[None, start:end], data[None, end : night + 1]
    if full < len(data):
        nights = np.arange(full, len(data))
        windows = np.lib.stride_tricks.sliding_window_view
        ends = nights - window + 1
        yield nights, windows(data, REFERENCE)[ends - REFERENCE], windows(data, window)[ends]


def _usual(references: Array, resolution: float) -> tuple[Array, Array, Array]:
    """Return the median, the robust standard deviation and its lower bound, row by row."""
    middle = np.median(references, axis=1, keepdims=True)
    floor = np.maximum(resolution, ROUNDING * np.abs(middle)) + SMALLEST
    spread = TO_SD * np.median(np.abs(references - middle), axis=1, keepdims=True)
    return middle, np.maximum(spread, floor), floor


def _scores(references: Array, latest: Array, resolution: float) -> Array:
    """Return the change of the latest nights in standard errors, row by row."""
    middle, scale, floor = _usual(references, resolution)
    before = np.clip((references - middle) / scale, -CUT, CUT)
    now = np.clip((latest - middle) / scale, -CUT, CUT)
    spread = np.maximum(before.std(axis=1, ddof=1), (floor / scale)[:, 0])
    error = spread * np.sqrt(1 / latest.shape[1] + 1 / references.shape[1])
    difference: Array = (now.mean(axis=1) - before.mean(axis=1)) / error
    return difference


def _begin(data: Array, low: int, known: int) -> int:
    """Return the night at which splitting the nights up to `known` brings them closest to two medians."""
    nights = data[low : known + 1]
    splits = range(1, len(nights))
    return low + min(splits, key=lambda at: _distance(nights[:at]) + _distance(nights[at:]))


def _distance(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())


Key: TypeAlias = tuple[str, str, str, str]  # of a series: metric, variant, workload, bucket type
# changed: the metric has no direction.
LevelVerdict: TypeAlias = Literal["better", "worse", "changed"]


@dataclass(frozen=True)
class Run:
    """A run of the spec. `value` is the effect, or for the baseline the mean in the metric's unit.

    `commit` and `title` name the source of the variant, as `git describe --dirty` marks it; None if unknown.
    """

    experiment: str
    created_at: datetime
    build_id: str
    value: float
    blocks: int
    commit: str | None = None
    title: str | None = None
    ci95: Interval | None = None  # of the value


@dataclass(frozen=True)
class Level:
    """The runs `first` to `last` (inclusive) at one level.

    `p` belongs to the look that found the change to it, `known` is the run at which it was found; both are
    None for the first level.
    """

    first: int
    last: int
    value: float  # the median
    p: float | None
    known: int | None = None

    @property
    def runs(self) -> int:
        """The number of runs at this level."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Series:
    """A variant in a case, oldest run first. `kind` is None for the baseline's raw values."""

    case: Case
    variant: str
    baseline: str
    metric: MetricType
    kind: EffectKind | None
    runs: tuple[Run, ...]
    levels: tuple[Level, ...]

    @property
    def key(self) -> Key:
        return (self.metric.id, self.variant, *self.case)

    def verdict(self, number: int = -1) -> LevelVerdict | None:
        """Compare level `number` (the latest by default) with the previous level; None for the first level."""
        if self.levels[number].p is None:
            return None
        return verdict_of(self.metric, self.levels[number].value > self.levels[number - 1].value)


@dataclass(frozen=True)
class Alarm:
    """A change of level. `cases` is one case, or all cases that were pooled; `first` is the run that began it.

    `moved` lists the cases that were themselves away from their previous level when it became known.
    """

    metric: MetricType
    variant: str
    baseline: str
    cases: tuple[Case, ...]
    verdict: LevelVerdict
    first: str
    first_at: datetime
    first_run: int
    known: str
    known_at: datetime
    known_run: int
    p: float
    moved: tuple[Case, ...]

    @property
    def keys(self) -> set[Key]:
        """The series that the alarm is about: those that moved, or all if none moved much by itself."""
        return {(self.metric.id, self.variant, *case) for case in self.moved or self.cases}

    def __str__(self) -> str:
        against = "" if self.variant == self.baseline else f" against {self.baseline}"
        where = ", ".join(str(case) for case in self.cases)
        return (
            f"{self.verdict}: {self.metric.id} of {self.variant}{against} on {where}"
            f" since {self.first} ({self.first_at:%Y-%m-%d})"
        )


@dataclass(frozen=True)
class History:
    """Every series of a metric.

    `left_out` lists runs that were not measured like the newest one, in some or all series. `why` has a line
    for all runs with the same differences.
    """

    spec_name: str
    metric: str
    series: tuple[Series, ...]
    left_out: tuple[str, ...]
    why: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    newest: str = ""
    newest_at: datetime | None = None
    left_out_at: datetime | None = None  # time of the newest run that was left out
    left_out_why: str = ""

    def begins_anew(self, moment: datetime) -> str:
        """Say why a series lost all runs up to `moment`; empty if none did."""
        if self.left_out_at is None or self.left_out_at < moment:
            return ""
        cut = any(series.runs and series.runs[0].created_at > moment for series in self.series)
        return self.left_out_why if cut else ""

    def known_after(self, moment: datetime) -> tuple[Alarm, ...]:
        """Return the alarms that became known with runs that began after `moment`."""
        return tuple(alarm for alarm in self.alarms if alarm.known_at > moment)

    @property
    def news(self) -> tuple[Alarm, ...]:
        """The alarms that became known with the newest run."""
        return tuple(alarm for alarm in self.alarms if alarm.known == self.newest)


def scaled(values: Sequence[float], kind: EffectKind | None) -> list[float]:
    """Return ratios as logarithms, other values unchanged."""
    return [math.log(value) for value in values] if kind == "ratio" else list(values)


def resolution_of(metric: MetricType, kind: EffectKind | None) -> float:
    """Return the resolution in the unit of `scaled`; zero for raw values, which have enough noise."""
    if kind is None:
        return 0.0
    return math.log1p(metric.resolution) if kind == "ratio" else metric.resolution


def verdict_of(metric: MetricType, rose: bool) -> LevelVerdict:
    """Tell whether a rise (or fall) of the metric is better, worse or neither."""
    if metric.direction == "none":
        return "changed"
    return "better" if rose == (metric.direction == "higher") else "worse"
