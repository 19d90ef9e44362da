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
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from perfrunner.analysis.inference import false_discovery, signed_rank_p, t_interval, t_test
from perfrunner.analysis.model import CONFIDENCE, Effect, EffectKind, Interval, Summary

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

V = TypeVar("V", np.float64, "Array")
NO_SPREAD = 1e-12  # a standard deviation below this share of the values is rounding, not spread
MIN_FOR_FENCES = 5


class NotARatioError(ValueError):
    """A ratio of values that are not all positive is not defined."""


class Pairing(NamedTuple):
    """What an effect is estimated from: two arms' values by block.

    `margin` and `resolution` are shares for a ratio, else in the metric's unit.
    """

    kind: EffectKind
    base: Mapping[int, float]
    other: Mapping[int, float]
    margin: float
    resolution: float = 0.0


def summarise(values: Mapping[int, float]) -> Summary:
    """Describe one variant's trials, by block."""
    (found,) = summarise_all([values])
    return found


def summarise_all(many: Sequence[Mapping[int, float]]) -> list[Summary]:
    """Each by itself; those of as many trials are worked out at once."""
    found: dict[int, Summary] = {}
    for places in _grouped(map(len, many)):
        group = [many[place] for place in places]
        data = np.array([list(values.values()) for values in group], dtype=np.float64)
        found.update(zip(places, _summaries(group, data), strict=True))
    return [found[place] for place in range(len(many))]


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
    (found,) = paired_effects(baseline, [Pairing(kind, base, other, margin, resolution)])
    if isinstance(found, NotARatioError):
        raise found
    return found


def paired_effects(baseline: str, many: Sequence[Pairing]) -> list[Effect | NotARatioError]:
    """Each by itself; those of a kind and of as many blocks are worked out at once."""
    blocks = [sorted(pairing.base.keys() & pairing.other.keys()) for pairing in many]
    if not all(blocks):
        raise ValueError("no block holds both arms")
    found: dict[int, Effect | NotARatioError] = {}
    for places in _grouped(
        (pairing.kind, len(its)) for pairing, its in zip(many, blocks, strict=True)
    ):
        x, y = (
            np.array(
                [[getattr(many[place], arm)[b] for b in blocks[place]] for place in places],
                dtype=np.float64,
            )
            for arm in ("base", "other")
        )
        kept = np.arange(len(places))
        if many[places[0]].kind == "ratio":
            positive = (x > 0) & (y > 0)
            for row in np.flatnonzero(~positive.all(axis=1)):
                at = int(np.argmin(positive[row]))
                found[places[row]] = _not_a_ratio(blocks[places[row]][at], x[row, at], y[row, at])
            kept = np.flatnonzero(positive.all(axis=1))
        if len(kept):
            group = [many[places[row]] for row in kept]
            effects = _effects(baseline, group, x[kept], y[kept])
            found.update(zip((places[row] for row in kept), effects, strict=True))
    return [found[place] for place in range(len(many))]


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
        for values in (x, y):
            for block in np.flatnonzero(values <= 0):
                raise _not_a_ratio(int(block) + 1, values[block], values[block])
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


def adjust(p_values: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg q values, in the order of the p values."""
    if not p_values:
        return []
    return [float(q) for q in false_discovery(p_values)]


def _nearest_nothing(kind: EffectKind, mean: V, resolution: V) -> V:
    """The change within the resolution that lies nearest to the one found (a log ratio, or a difference)."""
    reach = np.log1p(resolution) if kind == "ratio" else resolution
    return np.clip(mean, -reach, reach)


def _grouped(keys: Iterable[Hashable]) -> Iterable[list[int]]:
    """The places of each key."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return places.values()


def _summaries(group: Sequence[Mapping[int, float]], data: Array) -> Iterator[Summary]:
    """A row of `data` each."""
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
    """Of one kind; a row of `x` (the baseline's) and `y` each."""
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
    """Intervals, p, t, standard deviations and signed-rank p of the rows of `d`: each has two values at least."""
    n, sd = d.shape[1], d.std(axis=1, ddof=1)
    # Where every block says the same there is no error to estimate. Nothing speaks against the value found.
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
    """None where there is none."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _student(mean: Array, sd: Array, n: int, flat: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Student's intervals of means; a point where the values do not spread."""
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
    from scipy import stats  # half a second, and only two experiments that are compared need it

    result: Any = stats.ttest_ind(y - nothing, x, equal_var=False)
    low, high = result.confidence_interval(CONFIDENCE)
    return (
        (float(low) + nothing, float(high) + nothing),
        float(result.pvalue),
        float(result.statistic),
    )


def _without_spread(data: Array, scale: float) -> bool:
    return float(data.std(ddof=1)) <= NO_SPREAD * scale


def _beyond_fences(data: Array) -> list[list[bool]]:
    """Row by row, which values are beyond Tukey's fences."""
    if data.shape[1] < MIN_FOR_FENCES:
        return [[]] * len(data)
    low, high = np.percentile(data, [25, 75], axis=1, keepdims=True)
    reach = 1.5 * (high - low)
    # Equal values must not differ by rounding.
    slack = NO_SPREAD * np.abs(data).max(axis=1, keepdims=True)
    beyond = (data < low - reach - slack) | (data > high + reach + slack)
    found: list[list[bool]] = beyond.tolist()
    return found


def _not_a_ratio(block: int, x: float, y: float) -> NotARatioError:
    return NotARatioError(f"a ratio needs positive values; block {block} has {min(x, y):g}")


def _back(kind: EffectKind, value: V) -> V:
    with np.errstate(over="ignore"):  # an interval of a few wild ratios may reach to infinity
        return np.exp(value) if kind == "ratio" else value
