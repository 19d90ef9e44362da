"""A metric over many runs of one spec: its levels, and the changes that are worth an alarm.

What is followed is each run's paired effect against the baseline, not the raw value: a host that became slower moves
both arms. The baseline's own mean is followed too, as what the host (or a change of the engine that hits all) did.

Every night every series is looked at (analysis/level.py), and false alarms are promised for all of them together: one
in FALSE_ALARM_YEARS years for a spec. Half of that is for the cells of a variant and metric pooled (a loss mostly hits
several, and then shows much sooner), half for each cell by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.analysis.circumstances import (
    differences,
    shared_circumstances,
    shortened,
    variant_circumstances,
    workload_circumstances,
)
from perfrunner.analysis.level import ROUNDING, SUDDEN, TO_SD, Change, changes
from perfrunner.analysis.model import Cell
from perfrunner.analysis.nights import Night, NightRow
from perfrunner.analysis.series import (
    Alarm,
    History,
    Level,
    Run,
    Series,
    Turn,
    resolution_of,
    scaled,
    turn_of,
)
from perfrunner.source.model import commit_of

if TYPE_CHECKING:
    from perfrunner.results import ExperimentRecord

FALSE_ALARM_YEARS = 5.0  # of a spec that runs every night; only changes for the worse are alarms
# Looks that may each find what is not there, for one false alarm. A false alarm lasts some nights of which the first is
# told, which allows for more than 1; heavy tails need less. Set by simulation: tests/unit/analysis/test_alarms.py.
LOOKS_AN_ALARM = 1.2
SAME_CHANGE = 10  # nights by which the beginning of one change is placed differently in a cell and in the pool
MOVED = 1.0  # standard deviations by which a cell is away from its level before, to have a part in a pooled change
SMALLEST = 1e-300
POOL_RUNS = 20  # the first ones, from which each cell's spread is known for the pool

Place: TypeAlias = tuple[Cell, str]  # a cell and a variant


def history(nights: Sequence[Night], metric: str, *, metrics: int = 1) -> History:
    """Over finished runs of one spec, oldest first. The newest says what is compared.

    A run whose hosts, engine settings or schedule were others is no part of any series; one in which a workload or a
    variant (or the baseline) was defined otherwise is no part of that one's.
    `metrics`: how many are looked at, this one included; they share the false alarms.
    """
    if not nights:
        return History("", metric, (), ())
    newest = nights[-1]
    unlike = _Unlike(newest.record)
    found: dict[Place, list[tuple[Night, NightRow]]] = {}
    for night in nights:
        if unlike.as_a_whole(night.record):
            continue
        for row in night.rows:
            if row.metric.id == metric and not unlike.in_series(night.record, row):
                found.setdefault((row.cell, row.variant), []).append((night, row))
    latest = {(row.cell, row.variant) for row in newest.rows if row.metric.id == metric}
    kept = {place: rows for place, rows in found.items() if place in latest}
    arms = {variant for _, variant in kept}
    pooled = len(kept) > len(arms)
    share = 0.5 if pooled else 1.0
    looks = _level_of_a_look(share, len(kept) * metrics)
    series = tuple(_series(place, rows, newest.baseline, looks) for place, rows in kept.items())
    alarms = [alarm for one in series for alarm in _alarms(one)]
    if pooled:
        pool = _level_of_a_look(share, len(arms) * metrics)
        for variant in dict.fromkeys(variant for _, variant in kept):
            alarms += _pooled([one for one in series if one.variant == variant], pool)
    return History(
        spec_name=newest.record.name,
        metric=metric,
        series=series,
        left_out=tuple(unlike.found),
        why=unlike.lines(),
        alarms=tuple(_told_once(alarms, {n.experiment: place for place, n in enumerate(nights)})),
        newest=newest.experiment,
        newest_at=newest.created_at,
        left_out_at=max(
            (n.created_at for n in nights if n.experiment in unlike.found), default=None
        ),
        left_out_why=shortened(next(reversed(unlike.found.values()), [])),
    )


class _Unlike:
    """In what older runs differ from the newest one, by their ids."""

    def __init__(self, newest: ExperimentRecord) -> None:
        self.found: dict[str, list[str]] = {}
        self._newest = newest
        self._shared = shared_circumstances(newest)
        self._known: dict[tuple[str, str, str], list[str]] = {}  # most nights run the same spec
        self._specs: dict[str, str] = {}

    def as_a_whole(self, record: ExperimentRecord) -> bool:
        return self._note(record, differences(shared_circumstances(record), self._shared))

    def in_series(self, record: ExperimentRecord, row: NightRow) -> bool:
        if record.id not in self._specs:
            self._specs[record.id] = json.dumps(record.spec_json, sort_keys=True, default=str)
        place = (self._specs[record.id], row.cell.workload, row.variant)
        if place not in self._known:
            then, now = (self._series(one, row) for one in (record, self._newest))
            self._known[place] = differences(then, now)
        return self._note(record, self._known[place])

    def lines(self) -> tuple[str, ...]:
        alike: dict[str, list[str]] = {}
        for run, differs in self.found.items():
            alike.setdefault(shortened(differs), []).append(run)
        return tuple(
            f"{runs[0] if len(runs) == 1 else f'{len(runs)} runs, {runs[0]} to {runs[-1]}'}: {text}"
            for text, runs in alike.items()
        )

    def _series(self, record: ExperimentRecord, row: NightRow) -> dict[str, str]:
        baseline = str(record.spec_json.get("baseline", ""))
        return {
            "baseline": baseline,
            **workload_circumstances(record, row.cell.workload),
            **variant_circumstances(record, baseline),
            **variant_circumstances(record, row.variant),
        }

    def _note(self, record: ExperimentRecord, differs: Sequence[str]) -> bool:
        if differs:
            known = self.found.setdefault(record.id, [])
            known += [line for line in differs if line not in known]
        return bool(differs)


def _level_of_a_look(share: float, series: int) -> float:
    return share * LOOKS_AN_ALARM / (365 * FALSE_ALARM_YEARS * max(1, series))


def _series(
    place: Place, found: list[tuple[Night, NightRow]], baseline: str, p_look: float
) -> Series:
    cell, variant = place
    raw = variant == baseline
    measured = [(night, row) for night, row in found if raw or row.effect is not None]
    runs = tuple(_run(night, row, raw=raw) for night, row in measured)
    metric = found[-1][1].metric
    kind = None if raw else metric.effect
    values = scaled([run.value for run in runs], kind)
    return Series(
        cell=cell,
        variant=variant,
        baseline=baseline,
        metric=metric,
        kind=kind,
        runs=runs,
        levels=_levels(
            [run.value for run in runs], changes(values, p_look, resolution_of(metric, kind))
        ),
    )


def _run(night: Night, row: NightRow, *, raw: bool) -> Run:
    value = row.mean if raw or row.effect is None else row.effect
    commit, title = commit_of(night.record.facts, row.variant)
    ci95 = None if raw and row.effect is not None else row.ci95
    return Run(
        night.experiment, night.created_at, row.build_id, value, row.blocks, commit, title, ci95
    )


def _levels(values: Sequence[float], found: Sequence[Change]) -> tuple[Level, ...]:
    import numpy as np

    if not values:
        return ()
    starts = [(0, None, None), *((one.first, one.p, one.known) for one in found)]
    ends = [*(one.first for one in found), len(values)]
    return tuple(
        Level(first, end - 1, float(np.median(values[first:end])), p, known)
        for (first, p, known), end in zip(starts, ends, strict=True)
    )


def _alarms(series: Series) -> list[Alarm]:
    found = []
    for number, level in enumerate(series.levels):
        if level.known is not None and level.p is not None:
            turn = series.turn(number) or "changed"
            cell = (series.cell,)
            found.append(_alarm(series, cell, turn, level.first, level.known, level.p, cell))
    return found


def _pooled(cells: Sequence[Series], p_look: float) -> list[Alarm]:
    """Changes of one variant in all cells at once: the mean of what each is away from its usual, in its own spreads."""
    shared = set.intersection(*({run.experiment for run in one.runs} for one in cells))
    first = cells[0]
    runs = [run for run in first.runs if run.experiment in shared]
    if len(cells) < 2 or len(runs) < 2:
        return []
    columns = [_standardised(one, shared) for one in cells]
    together = [sum(values) / len(values) for values in zip(*columns, strict=True)]
    places = {run.experiment: place for place, run in enumerate(first.runs)}
    every = tuple(one.cell for one in cells)
    found, start = [], 0
    for change in changes(together, p_look):
        moved = tuple(
            cell
            for cell, values in zip(every, columns, strict=True)
            if _has_moved(values, start, change)
        )
        begun, known = (places[runs[run].experiment] for run in (change.first, change.known))
        turn = turn_of(first.metric, change.rose)
        found.append(_alarm(first, every, turn, begun, known, change.p, moved))
        start = change.first
    return found


def _has_moved(values: Sequence[float], start: int, change: Change) -> bool:
    """In the direction of `change`, from the level that began at `start`; nothing later than its night is looked at."""
    import numpy as np

    before = float(np.median(values[start : change.first]))
    begun = min(change.first, change.known - SUDDEN + 1)  # one odd night is no part of a change
    now = float(np.median(values[begun : change.known + 1]))
    return (now - before if change.rose else before - now) > MOVED


def _standardised(series: Series, shared: set[str]) -> list[float]:
    """In units of the spread of the first runs, which stays what it is: a night told is not untold by a later one."""
    import numpy as np

    values = scaled([run.value for run in series.runs if run.experiment in shared], series.kind)
    early = np.asarray(values[:POOL_RUNS])
    middle = float(np.median(early))
    spread = TO_SD * float(np.median(np.abs(early - middle)))
    floor = max(resolution_of(series.metric, series.kind), ROUNDING * abs(middle), SMALLEST)
    return [(value - middle) / max(spread, floor) for value in values]


def _alarm(
    series: Series,
    cells: tuple[Cell, ...],
    turn: Turn,
    first: int,
    known: int,
    p: float,
    moved: tuple[Cell, ...],
) -> Alarm:
    begun = series.runs[first]
    return Alarm(
        metric=series.metric,
        variant=series.variant,
        baseline=series.baseline,
        cells=cells,
        turn=turn,
        first=begun.experiment,
        first_at=begun.created_at,
        first_run=first,
        known=series.runs[known].experiment,
        known_at=series.runs[known].created_at,
        known_run=known,
        p=p,
        moved=moved,
    )


def _told_once(alarms: Sequence[Alarm], order: Mapping[str, int]) -> list[Alarm]:
    """In the order in which they became known; `order` of the runs by their ids.

    A cell and the pool may both show one change. Whichever shows it later is no news: a cell that had a part in the
    pooled change, and a pooled change of which each part was told. Each accounts for one change of the other only, and
    no series for a change of its own.
    """
    told: list[Alarm] = []
    taken: set[tuple[int, Cell, bool]] = set()  # place in `told`, cell, whether that was pooled
    for alarm in sorted(alarms, key=lambda one: (order[one.known], -len(one.cells))):
        pooled = len(alarm.cells) > 1
        accounts: list[tuple[int, Cell, bool]] = []
        for cell in alarm.moved:
            accounts += [
                account
                for place, before in enumerate(told)
                if (len(before.cells) > 1) != pooled
                and cell in before.moved
                and _same_change(alarm, before, order)
                and (account := (place, cell, pooled)) not in taken
            ][:1]
        if alarm.moved and len(accounts) == len(alarm.moved):
            taken.update(accounts)
        else:
            told.append(alarm)
    return told


def _same_change(one: Alarm, before: Alarm, order: Mapping[str, int]) -> bool:
    """What began only when the other was known is another change."""
    alike = (one.variant, one.turn) == (before.variant, before.turn)
    begun, then = order[one.first], order[before.first]
    return alike and abs(begun - then) <= SAME_CHANGE and begun <= order[before.known]
