"""Compute the figures of docs/explanation/accuracy.md from kept comparisons, with the analysis of reports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfrunner.analysis.account import PARTS
from perfrunner.analysis.compare import compare
from perfrunner.analysis.estimate import paired_effect
from perfrunner.analysis.inference import t_interval
from perfrunner.analysis.model import CONFIDENCE, Effect, Row
from perfrunner.analysis.noise import half_width
from perfrunner.spec.metrics import metric_type
from tools.evidence.kept import Comparison
from tools.evidence.studies import PER_SECOND


@dataclass(frozen=True)
class Count:
    """A count: `hits` of `of`, with the exact (Clopper-Pearson) 95 % interval of the share."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        from scipy import stats

        limits = stats.binomtest(self.hits, self.of).proportion_ci(0.95, method="exact")
        return float(limits.low), float(limits.high)


@dataclass(frozen=True)
class Alarms:
    """The alarms of a metric over many A/A comparisons, and the half-widths of its intervals (see `half_width`)."""

    metric: str
    alarms: Count
    half_widths: tuple[float, ...]
    sds: tuple[float, ...]  # over blocks, of the paired differences (logarithms for a ratio)

    def half_width(self, share: float) -> float:
        """Return a quantile; 0.5 is the median."""
        return float(np.quantile(self.half_widths, share))


@dataclass(frozen=True)
class Reports:
    """A count of A/A experiments whose report says *better* or *worse* in any row."""

    false: Count
    rows: int  # of a report: variants against the baseline, times metrics
    claims: Mapping[str, int]  # metric -> in how many of the reports


@dataclass(frozen=True)
class Found:
    """An injected fault in a metric: how often it was found, and how often the interval covers its cost.

    The cost is known twice: from how the fault is made, and as the mean estimate of all other experiments.
    """

    fault: str
    metric: str
    constructed: float | None  # a ratio; None: the construction does not tell
    mean: float  # of the estimates, a ratio
    half_width: float  # median
    worse: Count
    covers: Count | None  # of the construction's
    repeats: Count  # of the others' mean


@dataclass(frozen=True)
class Slope:
    """The change of a figure per change of the counted truth, over the sizes of a fault: mean over blocks, interval."""

    estimate: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class DoseResponse:
    """A fault in several sizes. `counted` is the largest, as a share of the time per operation."""

    fault: str
    blocks: int
    counted: float
    slopes: Mapping[str, Slope]  # by figure: a metric, or TIME
    right_signs: Count  # sizes whose total CPU is more than without the fault


def effect(
    comparison: Comparison, metric: str, other: str, baseline: str | None = None
) -> Effect | None:
    """Return the effect of one variant against another, paired by block; None if either lacks the metric."""
    base = comparison.by_block(baseline or comparison.baseline, metric)
    values = comparison.by_block(other, metric)
    if not base.keys() & values.keys():
        return None
    kind = metric_type(metric)
    return paired_effect(kind.effect, comparison.baseline, base, values, kind.default_margin)


def alarms(comparisons: Sequence[Comparison], metrics: Sequence[str]) -> list[Alarms]:
    """Return the alarms of each measured metric; an alarm is an interval that excludes "no change"."""
    by_metric = []
    for metric in metrics:
        effects = [
            estimate
            for c in comparisons
            for other in c.others
            if (estimate := effect(c, metric, other)) is not None and estimate.ci95 is not None
        ]
        if not effects:
            continue
        by_metric.append(
            Alarms(
                metric,
                Count(
                    sum(not _holds(estimate, estimate.neutral) for estimate in effects),
                    len(effects),
                ),
                tuple(w for estimate in effects if (w := half_width(estimate)) is not None),
                tuple(estimate.sd for estimate in effects if estimate.sd is not None),
            )
        )
    return by_metric


def reports(comparisons: Sequence[Comparison]) -> Reports | None:
    """Return how often reports call an A/A better or worse; None without stored reports."""
    reports = {
        comparison.experiment: comparison.facts["report"]
        for comparison in comparisons
        if "report" in comparison.facts
    }
    if not reports:
        return None
    claims = Counter(
        metric
        for report in reports.values()
        for metric in {row.split(" ")[1] for row in report["differ"]}
    )
    false = sum(bool(report["differ"]) for report in reports.values())
    return Reports(
        Count(false, len(reports)),
        max(report["rows"] for report in reports.values()),
        dict(sorted(claims.items(), key=lambda claim: (-claim[1], claim[0]))),
    )


def injected(
    comparisons: Sequence[Comparison],
    faults: Iterable[str],
    metrics: Sequence[str],
    constructed: Mapping[tuple[str, str], float],
) -> list[Found]:
    """Return how often each fault is found, by the verdicts of a report, which are corrected for several tests.

    `constructed`: the ratio, by fault and metric, that follows from how the fault is made.
    """
    rows = [verdicts(comparison) for comparison in comparisons]
    injections = []
    for fault in faults:
        for metric in metrics:
            measured = [table[fault, metric] for table in rows if (fault, metric) in table]
            effects = [row.effect for row in measured if row.effect is not None]
            if not effects:
                continue
            logs = np.log([each.estimate for each in effects])
            known = constructed.get((fault, metric))
            repeats = [_holds(each, _others(logs, index)) for index, each in enumerate(effects)]
            held = None if known is None else sum(_holds(each, known) for each in effects)
            injections.append(
                Found(
                    fault,
                    metric,
                    known,
                    float(np.exp(logs.mean())),
                    float(np.median([half_width(each) or math.nan for each in effects])),
                    Count(sum(row.verdict == "worse" for row in measured), len(measured)),
                    None if held is None else Count(held, len(effects)),
                    Count(sum(repeats), len(effects)),
                )
            )
    return injections


def verdicts(comparison: Comparison) -> dict[tuple[str, str], Row]:
    """Return the rows of perfrunner's own report, by variant and metric."""
    return {
        (row.variant, row.metric.id): row
        for row in compare(comparison.data()).rows
        if row.effect is not None
    }


def named_rare(comparison: Comparison, variant: str) -> str | None:
    """Return what a report says about the variant's slow slices, or None."""
    row = verdicts(comparison).get((variant, "ops_per_s"))
    notes = () if row is None else row.notes
    return next((note for note in notes if "slow slices" in note), None)


def totals_against_robust(comparison: Comparison, other: str) -> Effect | None:
    """Return the ratio of totals over the robust ratio, paired by block: the cost of a variant's rare slices."""
    series = []
    for variant in (comparison.baseline, other):
        robust = comparison.by_block(variant, "ops_per_s")
        totals = comparison.by_block(variant, "ops_per_s_total")
        if not robust or robust.keys() != totals.keys():
            return None
        series.append({block: totals[block] / robust[block] for block in robust})
    return paired_effect("ratio", comparison.baseline, series[0], series[1], 0.0025)


TIME = "time"  # of a load thread per operation: what throughput shows
FIGURES = (TIME, "server_cpu_us_per_op", "total_cpu_us_per_op")


def dose_response(comparison: Comparison) -> DoseResponse:
    """Regress the figures on what the server counted, block by block, over the sizes of the fault.

    All sizes run one binary, so its layout is in no slope.
    """
    fault, doses, blocks = str(comparison.facts["fault"]), comparison.others, comparison.blocks
    times = {v: _summed(comparison, v, PARTS) for v in comparison.values}
    truth = np.array([_truth(comparison, fault, v, times[v]) for v in doses])
    figures = {
        TIME: np.array([times[v] for v in doses]),
        **{name: np.array([_summed(comparison, v, [name]) for v in doses]) for name in FIGURES[1:]},
    }
    slopes = {}
    for name, values in figures.items():
        away = truth - truth.mean(axis=0)
        per_block = (away * (values - values.mean(axis=0))).sum(axis=0) / (away**2).sum(axis=0)
        error = float(per_block.std(ddof=1)) / math.sqrt(blocks)
        mean = float(per_block.mean())
        slopes[name] = Slope(mean, t_interval(mean, error, blocks - 1, CONFIDENCE))
    base = _summed(comparison, comparison.baseline, ["total_cpu_us_per_op"])
    more = [float((values - base).mean()) > 0 for values in figures["total_cpu_us_per_op"]]
    largest = truth[-1] / times[doses[-1]]
    return DoseResponse(fault, blocks, float(largest.mean()), slopes, Count(sum(more), len(more)))


def _truth(
    comparison: Comparison, fault: str, variant: str, times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what a server that is alone would burn per operation, by block, from what it counted."""
    if fault in PER_SECOND:
        rate: NDArray[np.float64] = _summed(comparison, variant, ["injected_ms_per_s"]) / 1000
        return np.asarray(rate * times)
    return _summed(comparison, variant, ["injected_us_per_op"])


def _summed(comparison: Comparison, variant: str, metrics: Iterable[str]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.sum(
        [comparison.values[variant][name] for name in metrics], axis=0
    )
    return total


def together(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Merge the blocks of experiments with the same variants into one long run."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.workload, comparison.bucket, *comparison.values), []).append(
            comparison
        )
    return [_joined(group) for group in groups.values()]


def schedules(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, str]]:
    """Return a comparison of `sequential` with `interleaved` for each case and variant, with the variant's name."""
    by = {
        (comparison.facts["schedule"], comparison.workload, comparison.bucket): comparison
        for comparison in comparisons
    }
    pairs = []
    for (schedule, workload, bucket), alone in by.items():
        interleaved = by.get(("interleaved", workload, bucket))
        if schedule != "sequential" or interleaved is None:
            continue
        for variant in alone.values.keys() & interleaved.values.keys():
            values = {
                "sequential": alone.values[variant],
                "interleaved": interleaved.values[variant],
            }
            pairs.append((Comparison(variant, workload, bucket, values, alone.primary), variant))
    return sorted(pairs, key=lambda pair: pair[0].key)


def grouped(
    comparisons: Iterable[Comparison], by: Callable[[Comparison], tuple[object, ...]]
) -> dict[tuple[object, ...], list[Comparison]]:
    """Group comparisons by a key, in the order of the first of each group."""
    groups: dict[tuple[object, ...], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(by(comparison), []).append(comparison)
    return groups


def _holds(effect: Effect, value: float) -> bool:
    return effect.ci95 is not None and effect.ci95[0] <= value <= effect.ci95[1]


def _others(logs: NDArray[np.float64], place: int) -> float:
    """Return the mean of all values but one; unknown for a single value."""
    return float(np.exp(np.delete(logs, place).mean())) if len(logs) > 1 else math.nan


def _joined(group: Sequence[Comparison]) -> Comparison:
    first = group[0]
    values = {
        variant: {
            metric: [value for comparison in group for value in comparison.values[variant][metric]]
            for metric in metrics
            if all(metric in comparison.values[variant] for comparison in group)
        }
        for variant, metrics in first.values.items()
    }
    return Comparison(
        first.experiment, first.workload, first.bucket, values, first.primary, first.facts
    )
