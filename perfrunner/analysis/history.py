"""Follow a metric over many runs of one spec: its levels, and the changes that raise an alarm.

The value followed is each run's paired effect against the baseline, not the raw value: a host that became
slower affects both variants. The baseline's own mean is followed as well; it shows changes of the host and
changes of the engine that affect all variants.

Every series is examined every night (analysis/series.py). The false-alarm rate holds for all of them
together: one in FALSE_ALARM_YEARS years for a spec. Half of it is spent on the pooled cases of a variant and
metric (a regression mostly affects several, and is then found sooner), half on each case by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.analysis.account import TOTAL_CPU
from perfrunner.analysis.environment import (
    differences,
    shared_environment,
    shortened,
    variant_environment,
    workload_environment,
)
from perfrunner.analysis.nights import Night, NightRow
from perfrunner.analysis.series import (
    ROUNDING,
    SMALLEST,
    SUDDEN,
    TO_SD,
    Alarm,
    Change,
    History,
    Level,
    LevelVerdict,
    Run,
    Series,
    changes,
    resolution_of,
    scaled,
    verdict_of,
)
from perfrunner.domain import Case
from perfrunner.sources.model import commit_of

if TYPE_CHECKING:
    from perfrunner.results import ExperimentRecord

FALSE_ALARM_YEARS = 5.0  # for a spec that runs every night; only changes for the worse are alarms
# Looks with a false finding per false alarm. A false alarm lasts several nights and only the first is reported, which
# allows more than 1; heavy tails need less. Determined by simulation: tests/unit/analysis/test_alarms.py.
LOOKS_AN_ALARM = 1.2
# Most nights between the starts of one change as found in a case and in the pool.
SAME_CHANGE = 10
MOVED = 1.0  # standard deviations from its previous level at which a case counts as part of a pooled change
POOL_RUNS = 20  # number of first runs from which each case's spread is estimated for the pool

Place: TypeAlias = tuple[Case, str]  # a case and a variant


def histories(nights: Sequence[Night], metrics: Sequence[str]) -> list[History]:
    """Return the history of each metric; next to others, a total CPU that no run has is left out."""
    measured = {row.metric.id for night in nights for row in night.rows}
    followed = [m for m in metrics if m in measured or m not in TOTAL_CPU] or metrics
    return [history(nights, metric, metrics=len(followed)) for metric in followed]


def history(nights: Sequence[Night], metric: str, *, metrics: int = 1) -> History:
    """Return the history of a metric over finished runs of one spec, oldest first.

    The newest run defines what is compared. Runs with other hosts, engine settings or schedule, or with more
    than twice the blocks, are left out of all series. A run that defines a workload, a variant or the baseline
    differently is left out of the series concerned. `metrics` is the number of metrics examined, this one
    included; they share the false alarms.
    """
    if not nights:
        return History("", metric, (), ())
    newest = nights[-1]
    unlike = _Unlike(newest.record)
    rows_of: dict[Place, list[tuple[Night, NightRow]]] = {}
    for night in nights:
        if unlike.as_a_whole(night.record):
            continue
        for row in night.rows:
            if row.metric.id == metric and not unlike.in_series(night.record, row):
                rows_of.setdefault((row.case, row.variant), []).append((night, row))
    latest = {(row.case, row.variant) for row in newest.rows if row.metric.id == metric}
    current = {place: rows for place, rows in rows_of.items() if place in latest}
    variants = {variant for _, variant in current}
    pooled = len(current) > len(variants)
    share = 0.5 if pooled else 1.0
    looks = _level_of_a_look(share, len(current) * metrics)
    members = (_series(place, rows, newest.baseline, looks) for place, rows in current.items())
    # Without a trial of the baseline there is nothing to compare with, and no run.
    series = tuple(member for member in members if member.runs)
    alarms = [alarm for member in series for alarm in _alarms(member)]
    if pooled:
        pool = _level_of_a_look(share, len(variants) * metrics)
        for variant in dict.fromkeys(variant for _, variant in current):
            alarms += _pooled([member for member in series if member.variant == variant], pool)
    return History(
        spec_name=newest.record.name,
        metric=metric,
        series=series,
        left_out=tuple(unlike.differences),
        why=unlike.lines(),
        alarms=tuple(
            _without_repeats(alarms, {n.experiment: place for place, n in enumerate(nights)})
        ),
        newest=newest.experiment,
        newest_at=newest.created_at,
        left_out_at=max(
            (n.created_at for n in nights if n.experiment in unlike.differences), default=None
        ),
        left_out_why=shortened(next(reversed(unlike.differences.values()), [])),
    )


class _Unlike:
    """The differences between older runs and the newest one, by run id."""

    def __init__(self, newest: ExperimentRecord) -> None:
        self.differences: dict[str, list[str]] = {}
        self._newest = newest
        self._shared = shared_environment(newest)
        self._known: dict[tuple[str, str, str], list[str]] = {}  # most nights run the same spec
        self._specs: dict[str, str] = {}

    def as_a_whole(self, record: ExperimentRecord) -> bool:
        """Note differences that exclude the run from all series; tell whether there are any."""
        differs = differences(shared_environment(record), self._shared)
        return self._note(record, [*differs, *_more_precise(record, self._newest)])

    def in_series(self, record: ExperimentRecord, row: NightRow) -> bool:
        """Note differences that exclude the run from the row's series; tell whether there are any."""
        if record.id not in self._specs:
            self._specs[record.id] = json.dumps(record.spec_json, sort_keys=True, default=str)
        place = (self._specs[record.id], row.case.workload, row.variant)
        if place not in self._known:
            then, now = (self._series(run, row) for run in (record, self._newest))
            self._known[place] = differences(then, now)
        return self._note(record, self._known[place])

    def lines(self) -> tuple[str, ...]:
        """Return one line for all runs with the same differences."""
        alike: dict[str, list[str]] = {}
        for run, differs in self.differences.items():
            alike.setdefault(shortened(differs), []).append(run)
        return tuple(
            f"{runs[0] if len(runs) == 1 else f'{len(runs)} runs, {runs[0]} to {runs[-1]}'}: {text}"
            for text, runs in alike.items()
        )

    def _series(self, record: ExperimentRecord, row: NightRow) -> dict[str, str]:
        baseline = str(record.spec_json.get("baseline", ""))
        return {
            "baseline": baseline,
            **workload_environment(record, row.case.workload),
            **variant_environment(record, baseline),
            **variant_environment(record, row.variant),
        }

    def _note(self, record: ExperimentRecord, differs: Sequence[str]) -> bool:
        if differs:
            known = self.differences.setdefault(record.id, [])
            known += [line for line in differs if line not in known]
        return bool(differs)


def _more_precise(record: ExperimentRecord, newest: ExperimentRecord) -> list[str]:
    """Return a difference if the run had more than twice the blocks of the newest, and so much less noise.

    Next to such runs, the noise of few blocks looks like a change.
    """
    then, now = (run.spec_json.get("blocks") for run in (record, newest))
    return [f"blocks: {then} or {now}"] if then and now and then > 2 * now else []


def _level_of_a_look(share: float, series: int) -> float:
    return share * LOOKS_AN_ALARM / (365 * FALSE_ALARM_YEARS * max(1, series))


def _series(
    place: Place, rows: list[tuple[Night, NightRow]], baseline: str, p_look: float
) -> Series:
    case, variant = place
    raw = variant == baseline
    measured = [(night, row) for night, row in rows if raw or row.effect is not None]
    runs = tuple(_run(night, row, raw=raw) for night, row in measured)
    metric = rows[-1][1].metric
    kind = None if raw else metric.effect
    values = scaled([run.value for run in runs], kind)
    return Series(
        case=case,
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


def _levels(values: Sequence[float], found_changes: Sequence[Change]) -> tuple[Level, ...]:
    import numpy as np

    if not values:
        return ()
    starts = [
        (0, None, None),
        *((change.first, change.p, change.known) for change in found_changes),
    ]
    ends = [*(change.first for change in found_changes), len(values)]
    return tuple(
        Level(first, end - 1, float(np.median(values[first:end])), p, known)
        for (first, p, known), end in zip(starts, ends, strict=True)
    )


def _alarms(series: Series) -> list[Alarm]:
    alarms = []
    for number, level in enumerate(series.levels):
        if level.known is not None and level.p is not None:
            verdict = series.verdict(number) or "changed"
            case = (series.case,)
            alarms.append(_alarm(series, case, verdict, level.first, level.known, level.p, case))
    return alarms


def _pooled(cases: Sequence[Series], p_look: float) -> list[Alarm]:
    """Find changes of one variant in all cases at once.

    The pooled value is the mean over the cases of their distance from the usual value, in units of their own
    spread.
    """
    if len(cases) < 2:
        return []
    shared = set.intersection(*({run.experiment for run in case.runs} for case in cases))
    first = cases[0]
    runs = [run for run in first.runs if run.experiment in shared]
    if len(runs) < 2:
        return []
    columns = [_standardised(case, shared) for case in cases]
    together = [sum(values) / len(values) for values in zip(*columns, strict=True)]
    places = {run.experiment: place for place, run in enumerate(first.runs)}
    every = tuple(series.case for series in cases)
    alarms, start = [], 0
    for change in changes(together, p_look):
        moved = tuple(
            case
            for case, values in zip(every, columns, strict=True)
            if _has_moved(values, start, change)
        )
        begun, known = (places[runs[run].experiment] for run in (change.first, change.known))
        verdict = verdict_of(first.metric, change.rose)
        alarms.append(_alarm(first, every, verdict, begun, known, change.p, moved))
        start = change.first
    return alarms


def _has_moved(values: Sequence[float], start: int, change: Change) -> bool:
    """Tell whether a case moved in the direction of `change` from the level that began at `start`.

    Nights after the one that found the change are ignored.
    """
    import numpy as np

    before = float(np.median(values[start : change.first]))
    begun = min(change.first, change.known - SUDDEN + 1)  # a single odd night is not a change
    now = float(np.median(values[begun : change.known + 1]))
    return (now - before if change.rose else before - now) > MOVED


def _standardised(series: Series, shared: set[str]) -> list[float]:
    """Express the values in units of the spread of the first runs.

    That spread stays fixed, so that a later night cannot change what was reported about an earlier one.
    """
    import numpy as np

    values = scaled([run.value for run in series.runs if run.experiment in shared], series.kind)
    early = np.asarray(values[:POOL_RUNS])
    middle = float(np.median(early))
    spread = TO_SD * float(np.median(np.abs(early - middle)))
    floor = max(resolution_of(series.metric, series.kind), ROUNDING * abs(middle), SMALLEST)
    return [(value - middle) / max(spread, floor) for value in values]


def _alarm(
    series: Series,
    cases: tuple[Case, ...],
    verdict: LevelVerdict,
    first: int,
    known: int,
    p: float,
    moved: tuple[Case, ...],
) -> Alarm:
    begun = series.runs[first]
    return Alarm(
        metric=series.metric,
        variant=series.variant,
        baseline=series.baseline,
        cases=cases,
        verdict=verdict,
        first=begun.experiment,
        first_at=begun.created_at,
        first_run=first,
        known=series.runs[known].experiment,
        known_at=series.runs[known].created_at,
        known_run=known,
        p=p,
        moved=moved,
    )


def _without_repeats(alarms: Sequence[Alarm], order: Mapping[str, int]) -> list[Alarm]:
    """Return the alarms in the order in which they became known, each change once.

    `order` maps run ids to their position. A case and the pool may both show one change; the later of the two
    is dropped: a case that was part of the pooled change, or a pooled change of which every part was
    reported. Each alarm accounts for one change of the other kind only, and never for another change of the
    same series.
    """
    reported: list[Alarm] = []
    taken: set[tuple[int, Case, bool]] = set()  # place in `reported`, case, whether that was pooled
    for alarm in sorted(alarms, key=lambda alarm: (order[alarm.known], -len(alarm.cases))):
        pooled = len(alarm.cases) > 1
        accounts: list[tuple[int, Case, bool]] = []
        for case in alarm.moved:
            accounts += [
                account
                for place, before in enumerate(reported)
                if (len(before.cases) > 1) != pooled
                and case in before.moved
                and _same_change(alarm, before, order)
                and (account := (place, case, pooled)) not in taken
            ][:1]
        if alarm.moved and len(accounts) == len(alarm.moved):
            taken.update(accounts)
        else:
            reported.append(alarm)
    return reported


def _same_change(alarm: Alarm, before: Alarm, order: Mapping[str, int]) -> bool:
    """Tell whether two alarms show one change: a change that began after the other was known is another."""
    alike = (alarm.variant, alarm.verdict) == (before.variant, before.verdict)
    begun, then = order[alarm.first], order[before.first]
    return alike and abs(begun - then) <= SAME_CHANGE and begun <= order[before.known]
