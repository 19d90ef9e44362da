"""Judge the quality of a measurement: saturated clients, too little load, drift over blocks, and slow slices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfrunner.analysis.estimate import paired_effect
from perfrunner.analysis.inference import t_interval
from perfrunner.analysis.model import ALPHA, CONFIDENCE, EffectKind, Interval
from perfrunner.domain import MIN_BLOCKS, TrialStatus
from perfrunner.measure.slices import BUSY_FACT, LOAD_FACT, OPS_FACT, PARTS_FACT, WAITS_FACT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis.cases import CaseBlocks, Paired
    from perfrunner.analysis.model import Effect
    from perfrunner.results import TrialRecord
    from perfrunner.spec.metrics import MetricType


BUSY_HOST = 0.25  # share of the slices of a median block; a quiet host has 0.01 to 0.03


def saturated(blocks: CaseBlocks, metric: str, variants: Iterable[str], limit: float) -> str:
    """Say why a rate or a latency measures the client and not the engine; empty if it does not, or is unknown."""
    if metric not in RATES and not metric.startswith("latency_"):
        return ""
    for variant in variants:
        facts = [trial.facts.get(BUSY_FACT) for trial in blocks.of(variant)]
        busy = [float(value) for value in facts if isinstance(value, (int, float))]
        if busy and median(busy) > limit:
            return (
                f"the load client is saturated: its busiest thread is {median(busy):.0%} busy with {variant}"
                f" (limit {limit:.0%}), so the value is that of the client"
            )
    return ""


def busy_hosts(cases: Iterable[CaseBlocks]) -> Iterable[str]:
    """Yield a sentence for each case whose load mostly met a busy host."""
    for blocks in cases:
        shares = []
        for trials in blocks.blocks.values():
            facts = [trial.facts.get(WAITS_FACT) for trial in trials]
            known = [float(value) for value in facts if isinstance(value, (int, float))]
            if known:
                shares.append(sum(known) / len(known))
        if shares and median(shares) > BUSY_HOST:
            yield (
                f"{blocks.case}: the host was busy: in {median(shares):.0%} of the slices the load waited for a CPU,"
                " so differences between variants look smaller than they are"
            )


def uneven_discards(
    trials: Iterable[TrialRecord], baseline: str, variants: Iterable[str]
) -> Iterable[str]:
    """Yield a sentence for each variant that was discarded apart from the baseline more often than by chance.

    The rules that discard trials assume that the cause has nothing to do with the variant. The test is one-sided, by
    sign, over the attempts in which one of the two was discarded and the other counted. One that failed did not count:
    its failure discards the others of its group. Trials that run alone may end before the other has run.
    """
    together: dict[tuple[object, ...], dict[str, TrialStatus]] = {}
    for trial in trials:
        place = (trial.case, trial.block, trial.attempt, trial.group)
        together.setdefault(place, {})[trial.variant] = trial.status
    for variant in variants:
        counts = {variant: 0, baseline: 0}
        for (*_, group), statuses in together.items():
            for name, other in ((variant, baseline), (baseline, variant)):
                counted = statuses.get(other, None if group else "ok") == "ok"
                counts[name] += statuses.get(name) == "discarded" and counted
        fewer, more = sorted((variant, baseline), key=lambda name: counts[name])
        n = counts[more] + counts[fewer]
        if sum(math.comb(n, k) for k in range(counts[fewer] + 1)) / 2**n < ALPHA:
            yield (
                f"{counts[more]} trials of {more} were discarded where that of {fewer} counted, and {counts[fewer]} the"
                f" other way. If {more} itself is the cause, the blocks that are left do not show it: see the reasons"
            )


LEAST_LOAD_S = 1.0  # of load on a variant in a trial
LEAST_BEYOND = 10  # operations slower than a percentile, below which the percentile is meaningless
RATES = ("ops_per_s", "ops_per_s_total", "ops_per_s_p90")
_PART = re.compile(r"ops_per_s_(before|during|after)")  # rates of a step workload
_PERCENTILE = re.compile(r"latency_(get|set)_p(\d+(?:_\d+)?)_us")


def too_little(
    blocks: CaseBlocks, metric: str, variants: Iterable[str], *, short_wanted: bool
) -> str:
    """Say why there can be no verdict; empty if there can be one, or if the trials lack the facts.

    `short_wanted`: the spec asks for short trials explicitly (`schedule: interleaved` of the workload).
    """
    part = _PART.fullmatch(metric)
    if part or (metric in RATES and not short_wanted):
        seconds = _median(blocks, variants, *((PARTS_FACT, part[1]) if part else (LOAD_FACT,)))
        if seconds is not None and seconds < LEAST_LOAD_S:
            return f"{seconds:.2g} s of load per trial: numbers only, a verdict on a rate needs {LEAST_LOAD_S:g} s"
    if match := _PERCENTILE.fullmatch(metric):
        operation, percent = match[1], float(match[2].replace("_", "."))
        ops = _median(blocks, variants, OPS_FACT, operation)
        beyond = None if ops is None else ops * (1 - percent / 100)
        if beyond is not None and beyond < LEAST_BEYOND:
            return (
                f"{beyond:.2g} operations of a trial are slower than its p{percent:g}: numbers only,"
                f" a verdict needs {LEAST_BEYOND}"
            )
    return ""


def short_load(blocks: CaseBlocks, metric: str, variants: Iterable[str]) -> str:
    """Return the note on a rate that rests on little load because the spec asks for it; empty otherwise."""
    seconds = _median(blocks, variants, LOAD_FACT) if metric in RATES else None
    if seconds is None or seconds >= LEAST_LOAD_S:
        return ""
    return f"{seconds:.2g} s of load per trial, as the spec asks"


def _median(
    blocks: CaseBlocks, variants: Iterable[str], fact: str, key: str | None = None
) -> float | None:
    values = [trial.facts.get(fact) for variant in variants for trial in blocks.of(variant)]
    if key is not None:
        values = [value.get(key) if isinstance(value, dict) else None for value in values]
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    return median(numbers) if numbers else None


@dataclass(frozen=True)
class Drift:
    """The change from the first block to the last: a ratio, or a difference in the metric's unit."""

    kind: EffectKind
    estimate: float
    ci95: Interval
    blocks: int


def drift(case: CaseBlocks, metric: MetricType) -> Drift | None:
    """Return the drift of a metric over the blocks of a case.

    None with fewer than six blocks that have the metric, and for a ratio of values that are not all positive.
    """
    by_variant: dict[str, list[tuple[int, float]]] = {}
    times: dict[int, list[float]] = {}
    for block, trials in case.blocks.items():
        for trial in trials:
            if metric.id in trial.metrics:
                value = float(trial.metrics[metric.id])
                by_variant.setdefault(trial.variant, []).append((block, value))
                times.setdefault(block, []).append(trial.started_at.timestamp())
    ratio = metric.effect == "ratio"
    if len(times) < MIN_BLOCKS or (
        ratio and any(v <= 0 for series in by_variant.values() for _, v in series)
    ):
        return None
    levels: dict[int, list[float]] = {block: [] for block in times}
    for series in by_variant.values():
        values = [math.log(value) if ratio else value for _, value in series]
        mean = sum(values) / len(values)
        for (block, _), value in zip(series, values, strict=True):
            levels[block].append(value - mean)
    x = np.array([np.mean(times[block]) for block in levels])
    y = np.array([np.mean(levels[block]) for block in levels])
    span = float(np.ptp(x))
    if span <= 0:
        return None
    slope, low, high = _slope((x - x.min()) / span, y)
    back = math.exp if ratio else float
    return Drift("ratio" if ratio else "difference", back(slope), (back(low), back(high)), len(x))


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the slope of the least-squares line with its interval: stats.linregress's slope and stderr."""
    away = x - x.mean()
    spread = float(away @ away)
    slope = float(away @ y) / spread
    left = y - y.mean() - slope * away
    freedom = len(x) - 2
    error = math.sqrt(float(left @ left) / freedom / spread)
    return (slope, *t_interval(slope, error, freedom, CONFIDENCE))


ROBUST, TOTAL, SLOW = "ops_per_s", "ops_per_s_total", "slow_slices"
NAMED = "the difference sits in slow slices"
APART = "the share of slow slices differs"  # the totals show no difference that this explains
MIN_SHARE = 0.25  # of the margin: a smaller disagreement of the two estimates is not worth a note


def slow_slices_note(
    blocks: CaseBlocks, baseline: str, variant: str, margin: float
) -> Iterable[str]:
    """Yield a note if the variant has more or fewer slow slices than the baseline; `margin` is that of the throughput.

    The test is the paired t test on the share of slow slices. On injected stalls it finds twice as many as the ratio of
    the two throughput estimates, which carries the noise of all slices (docs/explanation/accuracy.md). That ratio is
    tested only where the trials do not report their slow slices.
    """
    robust = blocks.paired(ROBUST, baseline, variant)
    total = blocks.paired(TOTAL, baseline, variant)
    both = sorted(robust.base.keys() & total.base.keys())
    figures = [
        values[b] for pair in (robust, total) for values in (pair.base, pair.other) for b in both
    ]
    if len(both) < 2 or min(figures) <= 0:
        return
    slow = blocks.paired(SLOW, baseline, variant)
    base, other = ({b: side[b] for b in both} for side in (total.base, total.other))
    by_total = paired_effect("ratio", baseline, base, other, margin)
    if len(slow.base) < 2:
        differs = _estimates_disagree(robust, total, both, margin)
        named = NAMED
    else:
        share = paired_effect("difference", baseline, slow.base, slow.other, margin)
        differs = _excludes_neutral(share)
        explains = (share.estimate > 0) == (by_total.estimate < 1)
        named = NAMED if explains and _excludes_neutral(by_total) else APART
    if differs:
        yield f"by totals {_percent(by_total)}: {named}{_slow(slow)}"


def _estimates_disagree(robust: Paired, total: Paired, both: Sequence[int], margin: float) -> bool:
    """Return whether the log ratios of the two estimates differ over the blocks, and by more than MIN_SHARE."""
    gap = paired_effect(
        "ratio",
        "",
        {b: robust.other[b] / robust.base[b] for b in both},
        {b: total.other[b] / total.base[b] for b in both},
        margin,
    )
    return _excludes_neutral(gap) and abs(math.log(gap.estimate)) > MIN_SHARE * math.log1p(margin)


def _slow(slow: Paired) -> str:
    if not slow.base:
        return ""
    rate, base_rate = (sum(v.values()) / len(v) for v in (slow.other, slow.base))
    return f" ({rate:.2g} % of its slices are slower than twice its median, {base_rate:.2g} % of the baseline's)"


def _excludes_neutral(effect: Effect) -> bool:
    return effect.ci95 is not None and not effect.ci95[0] <= effect.neutral <= effect.ci95[1]


def _percent(effect: Effect) -> str:
    assert effect.ci95 is not None
    estimate, low, high = (
        f"{100 * (ratio - 1):+.1f}".replace("-", "\N{MINUS SIGN}")
        for ratio in (effect.estimate, *effect.ci95)
    )
    return f"{estimate} % [{low}, {high}]"
