"""Compute the mean of a metric, the change against the baseline, and the interval of either, over blocks.

`summarise_all` is the mean of a variant, `paired_effects` the change within an experiment, `unpaired_effect` the change
between two experiments (Welch).

The interval is Student's t over trials, not a bootstrap: with ten trials a bootstrap interval labelled 95 %
covers 81 to 91 %. Ratios are computed as logarithms, so that swapping the two variants inverts the ratio and
its interval.

A metric's resolution is the largest change without meaning (a page, a bucket of a histogram). The tests are
against the nearest such change, not against zero. Otherwise a counter without spread that moved by one byte
would be a significant difference.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from perfrunner.analysis.inference import (
    false_discovery,
    ratio_of,
    signed_rank_p,
    special,
    t_interval,
    t_test,
    welch_error,
)
from perfrunner.analysis.model import CONFIDENCE, Effect, EffectKind, Interval, Summary

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

V = TypeVar("V", np.float64, "Array")
NO_SPREAD = 1e-12  # a standard deviation below this share of the values is a rounding error
MIN_FOR_FENCES = 5


class NotARatioError(ValueError):
    """An error: the ratio is undefined because not all values are positive."""


class Pairing(NamedTuple):
    """The input of a paired effect: two variants' values by block.

    `margin` and `resolution` are shares for a ratio, otherwise in the metric's unit.
    """

    kind: EffectKind
    base: Mapping[int, float]
    other: Mapping[int, float]
    margin: float
    resolution: float = 0.0


def summarise(values: Mapping[int, float]) -> Summary:
    """Summarise one variant's values by block."""
    (summary,) = summarise_all([values])
    return summary


def summarise_all(many: Sequence[Mapping[int, float]]) -> list[Summary]:
    """Summarise each mapping by itself; mappings of equal length are computed together."""
    summaries: dict[int, Summary] = {}
    for places in _grouped(map(len, many)):
        group = [many[place] for place in places]
        data = np.array([list(values.values()) for values in group], dtype=np.float64)
        summaries.update(zip(places, _summaries(group, data), strict=True))
    return [summaries[place] for place in range(len(many))]


def paired_effect(
    kind: EffectKind,
    baseline: str,
    base: Mapping[int, float],
    other: Mapping[int, float],
    margin: float,
    resolution: float = 0.0,
) -> Effect:
    """Return the effect over the blocks that hold both variants; there must be at least one.

    `margin` and `resolution` are shares for a ratio, otherwise in the metric's unit. Raises NotARatioError.
    """
    (effect,) = paired_effects(baseline, [Pairing(kind, base, other, margin, resolution)])
    if isinstance(effect, NotARatioError):
        raise effect
    return effect


def paired_effects(baseline: str, many: Sequence[Pairing]) -> list[Effect | NotARatioError]:
    """Return the effect of each pairing; those of one kind and block count are computed together."""
    blocks = [sorted(pairing.base.keys() & pairing.other.keys()) for pairing in many]
    if not all(blocks):
        raise ValueError("no block holds both variants")
    results: dict[int, Effect | NotARatioError] = {}
    for places in _grouped(
        (pairing.kind, len(shared)) for pairing, shared in zip(many, blocks, strict=True)
    ):
        x, y = (
            np.array(
                [[getattr(many[place], variant)[b] for b in blocks[place]] for place in places],
                dtype=np.float64,
            )
            for variant in ("base", "other")
        )
        valid: NDArray[np.intp] = np.arange(len(places))
        if many[places[0]].kind == "ratio":
            positive = (x > 0) & (y > 0)
            for row in np.flatnonzero(~positive.all(axis=1)):
                at = int(np.argmin(positive[row]))
                results[places[row]] = _not_a_ratio(blocks[places[row]][at], x[row, at], y[row, at])
            valid = np.flatnonzero(positive.all(axis=1))
        if len(valid):
            group = [many[places[row]] for row in valid]
            effects = _effects(baseline, group, x[valid], y[valid])
            results.update(zip((places[row] for row in valid), effects, strict=True))
    return [results[place] for place in range(len(many))]


def unpaired_effect(
    kind: EffectKind,
    baseline: str,
    base: Mapping[int, float],
    other: Mapping[int, float],
    margin: float,
    resolution: float = 0.0,
) -> Effect:
    """Return the effect between two experiments that were not interleaved, with Welch's interval."""
    x, y = (np.array([*values.values()], dtype=np.float64) for values in (base, other))
    if kind == "ratio":
        for block, value in (*base.items(), *other.items()):
            if value <= 0:
                raise _not_a_ratio(block, value, value)
        x, y = np.log(x), np.log(y)
    scale = 1.0 if kind == "ratio" else float(np.abs(np.concatenate([x, y])).max())
    nothing = float(_nearest_nothing(kind, y.mean() - x.mean(), np.float64(resolution)))
    interval, p, t = _welch(x, y, scale, nothing)
    return Effect(
        kind=kind,
        baseline=baseline,
        n=min(len(x), len(y)),
        estimate=float(_back(kind, y.mean() - x.mean())),
        ci95=None if interval is None else tuple(_back(kind, np.array(interval)).tolist()),
        p=p,
        t=t,
        sd=None,
        wilcoxon_p=None,
        margin=margin,
        resolution=resolution,
        paired=False,
    )


def events_summary(summary: Summary) -> Summary:
    """Return the summary of a count of events with an interval that is at least the exact Poisson one.

    The t interval of ten trials without an event is a point, but up to 0.37 events a trial could have been missed.
    A sum below zero is no count of events, and keeps its interval.
    """
    if sum(summary.values.values()) < 0:
        return summary
    low, high = _events_interval(sum(summary.values.values()), summary.n)
    if summary.ci95 is not None:
        low, high = min(low, summary.ci95[0]), max(high, summary.ci95[1])
    return replace(summary, ci95=(low, high))


def events_effect(effect: Effect, base: Mapping[int, float], other: Mapping[int, float]) -> Effect:
    """Return the effect on a count of events, a difference, with at least its exact Poisson uncertainty.

    `base` and `other` are the trials that the effect compares. The p value is at least that of the conditional test
    (given all events, each is the variant's with the probability of its share of the trials), and the interval at least
    that of the difference of two Poisson means, from the exact intervals of both (Zou and Donner 2008). Where events
    come in bursts, the t test over blocks is the wider one and stays.
    """
    if effect.ci95 is None or effect.p is None:
        return effect
    of_base, of_other = sum(base.values()), sum(other.values())
    if min(of_base, of_other) < 0:
        return effect
    low_x, high_x = _events_interval(of_base, len(base))
    low_y, high_y = _events_interval(of_other, len(other))
    x, y = of_base / len(base), of_other / len(other)
    low = effect.estimate - math.hypot(y - low_y, high_x - x)
    high = effect.estimate + math.hypot(high_y - y, x - low_x)
    share = len(other) / (len(base) + len(other))
    tails = _as_many(of_base, of_other, 1 - share), _as_many(of_other, of_base, share)
    exact = min(1.0, 2 * min(tails))
    sd, n = effect.sd, effect.n
    if sd is not None:
        widest = max(high - effect.estimate, effect.estimate - low)
        sd = max(sd, widest * math.sqrt(n) / t_interval(0.0, 1.0, n - 1, CONFIDENCE)[1])
    return replace(
        effect,
        ci95=(min(low, effect.ci95[0]), max(high, effect.ci95[1])),
        p=max(exact, effect.p),
        sd=sd,
    )


def _as_many(events: float, others: float, share: float) -> float:
    """Return the probability of at least `events` of all events on the side that has this share of the trials."""
    return float(special().betainc(events, others + 1, share)) if events > 0 else 1.0


def _events_interval(events: float, trials: int) -> Interval:
    """Return the exact (Garwood) interval of the mean number of events in a trial."""
    tail = (1 - CONFIDENCE) / 2
    low = float(special().gammaincinv(events, tail)) if events > NO_SPREAD else 0.0
    return low / trials, float(special().gammaincinv(events + 1, 1 - tail)) / trials


def adjust(p_values: Sequence[float]) -> list[float]:
    """Return the Benjamini-Hochberg q values in the order of the p values."""
    if not p_values:
        return []
    return [float(q) for q in false_discovery(p_values)]


def _nearest_nothing(kind: EffectKind, mean: V, resolution: V) -> V:
    """Return the change within the resolution that lies nearest to `mean` (a log ratio or a difference)."""
    reach = np.log1p(resolution) if kind == "ratio" else resolution
    return np.clip(mean, -reach, reach)


def _grouped(keys: Iterable[Hashable]) -> Iterable[list[int]]:
    """Return the positions of equal keys."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        places[key].append(index)
    return places.values()


def _summaries(group: Sequence[Mapping[int, float]], data: Array) -> Iterator[Summary]:
    """Yield a summary for each row of `data`."""
    n = data.shape[1]
    mean, least, most = data.mean(axis=1), data.min(axis=1), data.max(axis=1)
    beyond = _beyond_fences(data)
    columns: list[Iterable[Any]] = [mean.tolist(), least.tolist(), most.tolist(), beyond]
    if n < 2:
        columns += [[None] * len(group)] * 2
    else:
        sd = data.std(axis=1, ddof=1)
        low, high = _student(mean, sd, n, sd <= NO_SPREAD * np.abs(data).max(axis=1))
        columns += [sd.tolist(), zip(low.tolist(), high.tolist(), strict=True)]
    for values, centre, lowest, highest, out, spread, interval in zip(group, *columns, strict=True):
        yield Summary(
            values=dict(values),
            mean=centre,
            sd=spread,
            cv=None if spread is None or centre == 0 else spread / abs(centre),
            minimum=lowest,
            maximum=highest,
            ci95=interval,
            outliers=tuple(itertools.compress(values, out)) if any(out) else (),
        )


def _effects(baseline: str, group: Sequence[Pairing], x: Array, y: Array) -> Iterator[Effect]:
    """Yield the effects of pairings of one kind; `x` (the baseline) and `y` have a row for each."""
    kind, n = group[0].kind, x.shape[1]
    if kind == "ratio":
        d, scale = np.log(y) - np.log(x), np.ones(len(x))
    else:
        d, scale = y - x, np.maximum(np.abs(x).max(axis=1), np.abs(y).max(axis=1))
    mean = d.mean(axis=1)
    nothing = _nearest_nothing(kind, mean, np.array([pairing.resolution for pairing in group]))
    columns: list[Iterable[Any]] = [_back(kind, mean).tolist()]
    if n < 2:
        columns += [[None] * len(group)] * 5
    else:
        columns += _tested(kind, d, mean, scale, nothing)
    for pairing, estimate, interval, p, t, sd, wilcoxon_p in zip(group, *columns, strict=True):
        yield Effect(
            kind=kind,
            baseline=baseline,
            n=n,
            estimate=estimate,
            ci95=interval,
            p=p,
            t=t,
            sd=sd,
            wilcoxon_p=wilcoxon_p,
            margin=pairing.margin,
            resolution=pairing.resolution,
        )


def _tested(
    kind: EffectKind, d: Array, mean: Array, scale: Array, nothing: Array
) -> list[Iterable[Any]]:
    """Return intervals, p, t, standard deviations and signed-rank p of the rows of `d`.

    Each row has at least two values.
    """
    n, sd = d.shape[1], d.std(axis=1, ddof=1)
    # If all blocks agree, there is no error to estimate: the interval is the value itself.
    flat = sd <= NO_SPREAD * scale
    low, high = (_back(kind, end) for end in _student(mean, sd, n, flat))
    t = np.full(len(d), math.nan)
    p = np.where(np.abs(mean - nothing) <= NO_SPREAD * scale, 1.0, 0.0)
    t[~flat], p[~flat] = t_test(d[~flat], nothing[~flat])
    ranks = signed_rank_p(d - nothing[:, None])
    return [
        zip(low.tolist(), high.tolist(), strict=True),
        p.tolist(),
        _known(t),
        sd.tolist(),
        _known(ranks),
    ]


def _known(values: Array) -> list[float | None]:
    """Replace NaN by None."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _student(mean: Array, sd: Array, n: int, flat: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return Student's intervals of means; a point if the values do not spread."""
    return t_interval(mean, np.where(flat, 0.0, sd / math.sqrt(n)), n - 1, CONFIDENCE)


def _welch(
    x: Array, y: Array, scale: float, nothing: float
) -> tuple[Interval | None, float | None, float | None]:
    if len(x) < 2 or len(y) < 2:
        return None, None, None
    difference = float(y.mean() - x.mean())
    if _without_spread(x, scale) and _without_spread(y, scale):
        apart = abs(difference - nothing) > NO_SPREAD * scale
        return (difference, difference), 0.0 if apart else 1.0, None
    error, freedom = welch_error(x, y)
    t = (difference - nothing) / error
    p = 2 * float(special().stdtr(freedom, -abs(t)))
    return t_interval(difference, error, freedom, CONFIDENCE), p, t


def _without_spread(data: Array, scale: float) -> bool:
    return float(data.std(ddof=1)) <= NO_SPREAD * scale


def _beyond_fences(data: Array) -> list[list[bool]]:
    """Tell for each row which values lie beyond Tukey's fences."""
    if data.shape[1] < MIN_FOR_FENCES:
        return [[]] * len(data)
    low, high = np.percentile(data, [25, 75], axis=1, keepdims=True)
    reach = 1.5 * (high - low)
    # Equal values must not differ by rounding errors.
    slack = NO_SPREAD * np.abs(data).max(axis=1, keepdims=True)
    beyond = (data < low - reach - slack) | (data > high + reach + slack)
    rows: list[list[bool]] = beyond.tolist()
    return rows


def _not_a_ratio(block: int, x: float, y: float) -> NotARatioError:
    return NotARatioError(f"a ratio needs positive values; block {block} has {min(x, y):g}")


def _back(kind: EffectKind, value: V) -> V:
    """Undo the logarithm of a ratio; a difference is returned as it is."""
    return ratio_of(value) if kind == "ratio" else value
