"""The nouns of a history: a run's value, levels, a series of one variant in one cell, an alarm, all of a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.model import Cell, EffectKind, Interval

if TYPE_CHECKING:
    from datetime import datetime

    from perfrunner.spec.metrics import MetricType

Turn: TypeAlias = Literal["better", "worse", "changed"]  # changed: the metric has no direction


@dataclass(frozen=True)
class Run:
    """One run of the spec. `value`: the effect (ratio or difference); of the baseline the mean in the metric's unit.

    `commit` and `title`: what the arm was built from, as `git describe --dirty` marks it; None where it is not known.
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
    """Runs `first` to `last` (both included) at one level; `p` of the look that found the change to it.

    `known` is the run at which it was found; both are None for the first level.
    """

    first: int
    last: int
    value: float  # the median
    p: float | None
    known: int | None = None

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
        return turn_of(self.metric, self.levels[number].value > self.levels[number - 1].value)


@dataclass(frozen=True)
class Alarm:
    """A change of level. `cells` are one, or all that were pooled; `first`: the run that began it.

    `moved`: those of the cells that themselves were away from their level before when it became known.
    """

    metric: MetricType
    variant: str
    baseline: str
    cells: tuple[Cell, ...]
    turn: Turn
    first: str
    first_at: datetime
    first_run: int
    known: str
    known_at: datetime
    known_run: int
    p: float
    moved: tuple[Cell, ...]

    def __str__(self) -> str:
        against = "" if self.variant == self.baseline else f" against {self.baseline}"
        where = ", ".join(str(cell) for cell in self.cells)
        return (
            f"{self.turn}: {self.metric.id} of {self.variant}{against} on {where}"
            f" since {self.first} ({self.first_at:%Y-%m-%d})"
        )


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
    alarms: tuple[Alarm, ...] = ()
    newest: str = ""
    newest_at: datetime | None = None
    left_out_at: datetime | None = None  # the newest of them
    left_out_why: str = ""

    def begins_anew(self, moment: datetime) -> str:
        """Why a series has no run that was begun until `moment` any more, though there was one; empty where it has."""
        if self.left_out_at is None or self.left_out_at < moment:
            return ""
        cut = any(one.runs and one.runs[0].created_at > moment for one in self.series)
        return self.left_out_why if cut else ""

    def known_after(self, moment: datetime) -> tuple[Alarm, ...]:
        """What became known with runs that were begun later."""
        return tuple(alarm for alarm in self.alarms if alarm.known_at > moment)

    @property
    def news(self) -> tuple[Alarm, ...]:
        """What became known with the newest run."""
        return tuple(alarm for alarm in self.alarms if alarm.known == self.newest)


def scaled(values: Sequence[float], kind: EffectKind | None) -> list[float]:
    """Ratios as logarithms; the rest as it is."""
    return [math.log(value) for value in values] if kind == "ratio" else list(values)


def resolution_of(metric: MetricType, kind: EffectKind | None) -> float:
    """In the unit of `scaled`; raw values have noise enough of their own."""
    if kind is None:
        return 0.0
    return math.log1p(metric.resolution) if kind == "ratio" else metric.resolution


def turn_of(metric: MetricType, rose: bool) -> Turn:
    if metric.direction == "none":
        return "changed"
    return "better" if rose == (metric.direction == "higher") else "worse"
