"""Numbers from numbers: summaries, paired effects, the Welch effect. Their distributions are scipy's.

The interval is Student's t over trials, not a bootstrap: with ten trials a bootstrap interval that
says 95 % covers 81 to 91 %. Ratios are worked on as logarithms, so that swapping the two arms
inverts the ratio and its interval.

A metric's resolution is the largest change that means nothing (a page, a bucket of a histogram). The
tests are against the nearest such change, not against exactly none: else a counter without spread
that moved by one byte would be a certain difference.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perfrunner.analysis.inference import false_discovery, signed_rank_p, t_interval, t_test
from perfrunner.analysis.model import CONFIDENCE, Effect, EffectKind, Interval, Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NO_SPREAD = 1e-12  # a standard deviation below this share of the values is rounding, not spread
MIN_FOR_FENCES = 5


class NotARatioError(ValueError):
    """A ratio of values that are not all positive is not defined."""


def summarise(values: Mapping[int, float]) -> Summary:
    """Describe one variant's trials, by block."""
    data = np.array(list(values.values()), dtype=np.float64)
    mean = float(data.mean())
    sd = float(data.std(ddof=1)) if len(data) > 1 else None
    return Summary(
        values=dict(values),
        mean=mean,
        sd=sd,
        cv=None if sd is None or mean == 0 else sd / abs(mean),
        minimum=float(data.min()),
        maximum=float(data.max()),
        ci95=_interval(data, mean, sd),
        outliers=_beyond_fences(values, data),
    )


def paired_effect(
    kind: EffectKind,
    baseline: str,
    base: Mapping[int, float],
    other: Mapping[int, float],
    margin: float,
    resolution: float = 0.0,
) -> Effect:
    """The effect over the blocks that hold both arms; at least one such block is required.

    `margin` and `resolution` are shares for a ratio, else in the metric's unit.
    """
    blocks = sorted(base.keys() & other.keys())
    if not blocks:
        raise ValueError("no block holds both arms")
    x = np.array([base[b] for b in blocks], dtype=np.float64)
    y = np.array([other[b] for b in blocks], dtype=np.float64)
    if kind == "ratio":
        _require_positive(blocks, x, y)
        d, scale = np.log(y) - np.log(x), 1.0
    else:
        d, scale = y - x, float(np.abs([x, y]).max())
    nothing = _nearest_nothing(kind, float(d.mean()), resolution)
    found = _one_sample(d, scale, nothing)
    return Effect(
        kind=kind,
        baseline=baseline,
        n=len(blocks),
        estimate=_back(kind, float(d.mean())),
        ci95=_interval_back(kind, found.interval),
        p=found.p,
        t=found.t,
        sd=float(d.std(ddof=1)) if len(d) > 1 else None,
        wilcoxon_p=_wilcoxon(d - nothing),
        margin=margin,
        resolution=resolution,
    )


def unpaired_effect(
    kind: EffectKind,
    baseline: str,
    base: Sequence[float],
    other: Sequence[float],
    margin: float,
    resolution: float = 0.0,
) -> Effect:
    """Welch's interval between two experiments that were not interleaved."""
    x, y = np.array(base, dtype=np.float64), np.array(other, dtype=np.float64)
    if kind == "ratio":
        _require_positive(range(1, len(x) + 1), x, x)
        _require_positive(range(1, len(y) + 1), y, y)
        x, y = np.log(x), np.log(y)
    scale = 1.0 if kind == "ratio" else float(np.abs(np.concatenate([x, y])).max())
    nothing = _nearest_nothing(kind, float(y.mean() - x.mean()), resolution)
    interval, p, t = _welch(x, y, scale, nothing)
    return Effect(
        kind=kind,
        baseline=baseline,
        n=min(len(x), len(y)),
        estimate=_back(kind, float(y.mean() - x.mean())),
        ci95=_interval_back(kind, interval),
        p=p,
        t=t,
        sd=None,
        wilcoxon_p=None,
        margin=margin,
        resolution=resolution,
        paired=False,
    )


def adjust(p_values: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg q values, in the order of the p values."""
    if not p_values:
        return []
    return [float(q) for q in false_discovery(p_values)]


class _Found:
    """A one-sample t test; all None where there are fewer than two values."""

    def __init__(self, interval: Interval | None, p: float | None, t: float | None) -> None:
        self.interval = interval
        self.p = p
        self.t = t


def _nearest_nothing(kind: EffectKind, mean: float, resolution: float) -> float:
    """The change within the resolution that lies nearest to the one found (a log ratio, or a difference)."""
    reach = math.log1p(resolution) if kind == "ratio" else resolution
    return min(max(mean, -reach), reach)


def _one_sample(data: Array, scale: float, nothing: float) -> _Found:
    if len(data) < 2:
        return _Found(None, None, None)
    mean = float(data.mean())
    if _without_spread(data, scale):
        # Every block says the same: no error to estimate. Nothing speaks against the value found.
        return _Found((mean, mean), 1.0 if abs(mean - nothing) <= NO_SPREAD * scale else 0.0, None)
    t, p = t_test(data, nothing)
    return _Found(_student(data, mean, float(data.std(ddof=1))), p, t)


def _interval(data: Array, mean: float, sd: float | None) -> Interval | None:
    """Student's interval of a mean; a point where the values do not spread."""
    if sd is None:
        return None
    if sd <= NO_SPREAD * float(np.abs(data).max()):
        return (mean, mean)
    return _student(data, mean, sd)


def _student(data: Array, mean: float, sd: float) -> Interval:
    n = len(data)
    return t_interval(mean, sd / math.sqrt(n), n - 1, CONFIDENCE)


def _welch(
    x: Array, y: Array, scale: float, nothing: float
) -> tuple[Interval | None, float | None, float | None]:
    if len(x) < 2 or len(y) < 2:
        return None, None, None
    difference = float(y.mean() - x.mean())
    if _without_spread(x, scale) and _without_spread(y, scale):
        apart = abs(difference - nothing) > NO_SPREAD * scale
        return (difference, difference), 0.0 if apart else 1.0, None
    from scipy import stats  # half a second, and only two experiments that are compared need it

    result: Any = stats.ttest_ind(y - nothing, x, equal_var=False)
    low, high = result.confidence_interval(CONFIDENCE)
    return (
        (float(low) + nothing, float(high) + nothing),
        float(result.pvalue),
        float(result.statistic),
    )


def _wilcoxon(d: Array) -> float | None:
    """The signed-rank p value; None where it is not defined (no difference that is not zero)."""
    return signed_rank_p(d) if len(d) >= 2 and np.any(d) else None


def _without_spread(data: Array, scale: float) -> bool:
    return float(data.std(ddof=1)) <= NO_SPREAD * scale


def _beyond_fences(values: Mapping[int, float], data: Array) -> tuple[int, ...]:
    if len(data) < MIN_FOR_FENCES:
        return ()
    low, high = np.percentile(data, [25, 75])
    reach = 1.5 * (high - low)
    slack = NO_SPREAD * float(np.abs(data).max())  # equal values must not differ by rounding
    beyond = (data < low - reach - slack) | (data > high + reach + slack)
    return tuple(itertools.compress(values, beyond))


def _require_positive(blocks: Sequence[int] | range, x: Array, y: Array) -> None:
    for block, a, b in zip(blocks, x, y, strict=True):
        if a <= 0 or b <= 0:
            raise NotARatioError(f"a ratio needs positive values; block {block} has {min(a, b):g}")


def _back(kind: EffectKind, value: float) -> float:
    return math.exp(value) if kind == "ratio" else value


def _interval_back(kind: EffectKind, interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    return (_back(kind, interval[0]), _back(kind, interval[1]))
