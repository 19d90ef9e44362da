"""The figures of docs/statistics.md, from kept comparisons. Effects and verdicts are the tool's own (analysis)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfrunner.analysis import compare
from perfrunner.analysis.estimate import paired_effect
from perfrunner.analysis.model import Effect, Row
from perfrunner.analysis.noise import half_width
from perfrunner.evidence.kept import Comparison
from perfrunner.spec.metrics import metric_type


@dataclass(frozen=True)
class Count:
    """`hits` of `of`, with the exact (Clopper-Pearson) 95 % interval of the share."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        from scipy import stats

        found = stats.binomtest(self.hits, self.of).proportion_ci(0.95, method="exact")
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class Alarms:
    """A metric over many comparisons of what is the same. Half-widths as `half_width` gives them."""

    metric: str
    alarms: Count
    half_widths: tuple[float, ...]
    sds: tuple[float, ...]  # over blocks, of the paired differences (logarithms for a ratio)

    def half_width(self, share: float) -> float:
        """The quantile: 0.5 is the median."""
        return float(np.quantile(self.half_widths, share))


@dataclass(frozen=True)
class Reports:
    """Of experiments whose arms are all the same: those whose whole report says *better* or *worse* of anything."""

    false: Count
    rows: int  # of a report: arms against the baseline, times metrics
    claims: Mapping[str, int]  # metric -> in how many of the reports


@dataclass(frozen=True)
class Found:
    """A planted fault in a metric: how often it was found, and how often the interval holds what it costs.

    That is told twice: by its construction, and as the mean estimate of all the other experiments, a long run of its
    own.
    """

    fault: str
    metric: str
    constructed: float | None  # a ratio; None: the construction does not tell
    mean: float  # of the estimates, a ratio
    half_width: float  # median
    worse: Count
    covers: Count | None  # of the construction's
    repeats: Count  # of the others' mean


def effect(
    comparison: Comparison, metric: str, other: str, baseline: str | None = None
) -> Effect | None:
    """Of one arm against another, paired by block; None where one of them has no such metric."""
    base = comparison.by_block(baseline or comparison.baseline, metric)
    values = comparison.by_block(other, metric)
    if not base.keys() & values.keys():
        return None
    kind = metric_type(metric)
    return paired_effect(kind.effect, comparison.baseline, base, values, kind.default_margin)


def alarms(comparisons: Sequence[Comparison], metrics: Sequence[str]) -> list[Alarms]:
    """Of metrics that the comparisons have; an alarm is an interval that leaves out "no change"."""
    found = []
    for metric in metrics:
        effects = [
            one
            for c in comparisons
            for other in c.others
            if (one := effect(c, metric, other)) is not None and one.ci95 is not None
        ]
        if not effects:
            continue
        found.append(
            Alarms(
                metric,
                Count(sum(not _holds(one, one.neutral) for one in effects), len(effects)),
                tuple(w for one in effects if (w := half_width(one)) is not None),
                tuple(one.sd for one in effects if one.sd is not None),
            )
        )
    return found


def reports(comparisons: Sequence[Comparison]) -> Reports | None:
    """None where nothing is kept of what their reports said."""
    said = {one.experiment: one.facts["report"] for one in comparisons if "report" in one.facts}
    if not said:
        return None
    claims = Counter(
        metric for its in said.values() for metric in {row.split(" ")[1] for row in its["differ"]}
    )
    false = sum(bool(its["differ"]) for its in said.values())
    return Reports(
        Count(false, len(said)),
        max(its["rows"] for its in said.values()),
        dict(sorted(claims.items(), key=lambda claim: (-claim[1], claim[0]))),
    )


def planted(
    comparisons: Sequence[Comparison],
    faults: Iterable[str],
    metrics: Sequence[str],
    constructed: Mapping[tuple[str, str], float],
) -> list[Found]:
    """Verdicts are those that a report of the experiment gives, correction for several tests included.

    `constructed`: by fault and metric the change, a ratio, that follows from how the fault is made.
    """
    rows = [verdicts(one) for one in comparisons]
    found = []
    for fault in faults:
        for metric in metrics:
            its = [
                (one, table[fault, metric])
                for one, table in zip(comparisons, rows, strict=True)
                if (fault, metric) in table
            ]
            effects = [row.effect for _, row in its if row.effect is not None]
            if not effects:
                continue
            logs = np.log([one.estimate for one in effects])
            known = constructed.get((fault, metric))
            repeats = [_holds(one, _others(logs, place)) for place, one in enumerate(effects)]
            held = None if known is None else sum(_holds(one, known) for one in effects)
            found.append(
                Found(
                    fault,
                    metric,
                    known,
                    float(np.exp(logs.mean())),
                    float(np.median([half_width(one) or math.nan for one in effects])),
                    Count(sum(row.verdict == "worse" for _, row in its), len(its)),
                    None if held is None else Count(held, len(effects)),
                    Count(sum(repeats), len(effects)),
                )
            )
    return found


def verdicts(comparison: Comparison) -> dict[tuple[str, str], Row]:
    """The rows of the tool's own report, by arm and metric."""
    return {
        (row.variant, row.metric.id): row
        for row in compare(comparison.data()).rows
        if row.effect is not None
    }


def named_rare(comparison: Comparison, arm: str) -> str | None:
    """What a report says of the arm's rare slices; None where it names none."""
    row = verdicts(comparison).get((arm, "ops_per_s"))
    notes = () if row is None else row.notes
    return next((note for note in notes if "rare slices" in note), None)


def totals_against_robust(comparison: Comparison, other: str) -> Effect | None:
    """The ratio by totals over the robust ratio, block by block: what rare slices cost an arm beyond the baseline."""
    series = []
    for arm in (comparison.baseline, other):
        robust = comparison.by_block(arm, "ops_per_s")
        totals = comparison.by_block(arm, "ops_per_s_total")
        if not robust or robust.keys() != totals.keys():
            return None
        series.append({block: totals[block] / robust[block] for block in robust})
    return paired_effect("ratio", comparison.baseline, series[0], series[1], 0.0025)


def together(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Experiments of the same arms as one of all their blocks: a long run."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.workload, one.bucket, *one.values), []).append(one)
    return [_joined(group) for group in groups.values()]


def schedules(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, str]]:
    """Each cell and variant as a comparison of `sequential` with `side-by-side`, and the variant's name."""
    by = {(one.facts["schedule"], one.workload, one.bucket): one for one in comparisons}
    found = []
    for (schedule, workload, bucket), alone in by.items():
        beside = by.get(("side-by-side", workload, bucket))
        if schedule != "sequential" or beside is None:
            continue
        for variant in alone.values.keys() & beside.values.keys():
            values = {
                "sequential": alone.values[variant],
                "side-by-side": beside.values[variant],
            }
            found.append((Comparison(variant, workload, bucket, values, alone.primary), variant))
    return sorted(found, key=lambda pair: pair[0].key)


def grouped(
    comparisons: Iterable[Comparison], by: Callable[[Comparison], tuple[object, ...]]
) -> dict[tuple[object, ...], list[Comparison]]:
    """In the order of their first."""
    groups: dict[tuple[object, ...], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault(by(one), []).append(one)
    return groups


def _holds(one: Effect, value: float) -> bool:
    return one.ci95 is not None and one.ci95[0] <= value <= one.ci95[1]


def _others(logs: np.ndarray, place: int) -> float:
    """The mean of all but one; of one alone it is not known."""
    return float(np.exp(np.delete(logs, place).mean())) if len(logs) > 1 else math.nan


def _joined(group: Sequence[Comparison]) -> Comparison:
    first = group[0]
    values = {
        arm: {
            metric: [value for one in group for value in one.values[arm][metric]]
            for metric in its
            if all(metric in one.values[arm] for one in group)
        }
        for arm, its in first.values.items()
    }
    return Comparison(
        first.experiment, first.workload, first.bucket, values, first.primary, first.facts
    )
