"""When the level of a nightly series changed, and on which night that became known.

Looked at every night with what was known then, nothing later: so a change that is told once stays told, and the rate of
false alarms is that of nightly looks. The mean of the last 5 nights (and of 10 and 20, for small changes) is compared
with up to 60 nights of the level before them, in units of their spread: a robust one, with each night's distance from
the median cut at 3, so that one odd night is never a change. `p` is Student's, of one look on one side.

Three nights in a row that are each far outside (4 robust standard deviations) are a change too: with a short history
Student's bound is beyond what the cut distances can reach. That is looked for from the third night of a new level on,
in units of the spread before it: a second loss within days would else be taken into the new level's own spread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Nights looked at together, and the share of the false alarms that each may have.
WINDOWS = {5: 0.5, 10: 0.25, 20: 0.25}
LEANING = (2, 3, 5)  # nights that may raise a suspicion together
REFERENCE = 60  # nights of the level before, at most
LEAST_REFERENCE = 8  # a level is not known from fewer
CUT = 3.0
SUDDEN = 3  # nights in a row
FAR = 4.0
TO_SD = 1.4826  # of a median absolute distance, for normal noise
ROUNDING = 1e-12  # share of the values


@dataclass(frozen=True)
class Change:
    """Of a level: `first` is the first night of the new one, `known` the night on which it was found."""

    first: int
    known: int
    rose: bool
    p: float


def changes(values: Sequence[float], p_look: float, resolution: float = 0.0) -> list[Change]:
    """In order. `p_look`: how likely a look at one night may find, on one side, what is not there.

    `resolution`: noise below it is taken to be as large; for metrics that repeat exactly.
    """
    data = np.asarray(values, dtype=np.float64)
    found: list[Change] = []
    start, spread = 0, None
    while (change := _first(data, start, p_look, resolution, spread)) is not None:
        found.append(change)
        before = data[None, max(start, change.first - REFERENCE) : change.first]
        if before.shape[1] >= LEAST_REFERENCE:
            spread = float(_usual(before, resolution)[1][0, 0])
        start = change.first
    return found


def leaning(values: Sequence[float], start: int, resolution: float = 0.0) -> tuple[float, bool]:
    """How unlikely the last few nights of the level that began at `start` are, on one side, and whether they are high.

    (1.0, False) while the level is too young to tell. It promises nothing: it says where another run is worth its time.
    """
    data = np.asarray(values, dtype=np.float64)
    found = [(1.0, False)]
    for window in LEANING:
        end = len(data) - window
        references = data[None, max(start, end - REFERENCE) : max(end, 0)]
        if references.shape[1] >= LEAST_REFERENCE:
            found.append(_p_of(references, data[None, end:], resolution))
    return min(found)


def _p_of(references: Array, latest: Array, resolution: float) -> tuple[float, bool]:
    from scipy import special

    score = float(_scores(references, latest, resolution)[0])
    return float(special.stdtr(references.shape[1] - 1, -abs(score))), score > 0


def _first(
    data: Array, start: int, p_look: float, resolution: float, spread: float | None
) -> Change | None:
    """The change that became known first after `start`, the beginning of the present level.

    `spread`: of the nights before; None where there were none.
    """
    found = [
        _of_means(data, start, window, p_look * share, resolution)
        for window, share in WINDOWS.items()
    ]
    found.append(_sudden(data, start, resolution))
    if spread is not None:
        found.append(_sudden_while_young(data, start, resolution, spread))
    return min((one for one in found if one is not None), key=lambda one: one.known, default=None)


def _of_means(
    data: Array, start: int, window: int, p_look: float, resolution: float
) -> Change | None:
    from scipy import special  # scipy.stats takes a second to import

    for nights, references, latest in _looks(data, start, window):
        scores = _scores(references, latest, resolution)
        p = special.stdtr(references.shape[1] - 1, -np.abs(scores))
        hits = np.flatnonzero(p < p_look)
        if len(hits):
            first = hits[0]
            known = int(nights[first])
            begun = _begin(data, max(start, known - 2 * window + 1), known)
            return Change(begun, known, bool(scores[first] > 0), float(p[first]))
    return None


def _sudden(data: Array, start: int, resolution: float) -> Change | None:
    from scipy import special

    for nights, references, latest in _looks(data, start, SUDDEN):
        middle, scale, _ = _usual(references, resolution)
        away = (latest - middle) / scale
        hits = np.flatnonzero((away.min(axis=1) > FAR) | (away.max(axis=1) < -FAR))
        if len(hits):
            first = hits[0]
            known = int(nights[first])
            p = float(special.stdtr(references.shape[1] - 1, -FAR)) ** SUDDEN
            return Change(known - SUDDEN + 1, known, bool(away[first, 0] > 0), p)
    return None


def _sudden_while_young(data: Array, start: int, resolution: float, spread: float) -> Change | None:
    from scipy import special

    for night in range(
        start + 2 * SUDDEN - 1, min(start + LEAST_REFERENCE + SUDDEN - 1, len(data))
    ):
        begun = night - SUDDEN + 1
        middle, scale, _ = _usual(data[None, start:begun], resolution)
        away = (data[begun : night + 1] - middle[0]) / max(float(scale[0, 0]), spread)
        if away.min() > FAR or away.max() < -FAR:
            p = float(special.stdtr(LEAST_REFERENCE - 1, -FAR)) ** SUDDEN
            return Change(begun, night, bool(away[0] > 0), p)
    return None


def _looks(
    data: Array, start: int, window: int
) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """In the order of nights: (nights, their references, their last `window` nights), a row a night.

    One night at a time while the level is young, the rest at once.
    """
    young = start + LEAST_REFERENCE + window - 1
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
    """Row by row: median, robust standard deviation, and what that is at least."""
    middle = np.median(references, axis=1, keepdims=True)
    floor = np.maximum(resolution, ROUNDING * np.abs(middle)) + np.finfo(float).tiny
    spread = TO_SD * np.median(np.abs(references - middle), axis=1, keepdims=True)
    return middle, np.maximum(spread, floor), floor


def _scores(references: Array, latest: Array, resolution: float) -> Array:
    """Row by row: the change of the latest nights in standard errors."""
    middle, scale, floor = _usual(references, resolution)
    before = np.clip((references - middle) / scale, -CUT, CUT)
    now = np.clip((latest - middle) / scale, -CUT, CUT)
    spread = np.maximum(before.std(axis=1, ddof=1), (floor / scale)[:, 0])
    error = spread * np.sqrt(1 / latest.shape[1] + 1 / references.shape[1])
    difference: Array = (now.mean(axis=1) - before.mean(axis=1)) / error
    return difference


def _begin(data: Array, low: int, known: int) -> int:
    """Where the last nights up to `known` lie closest to two medians."""
    nights = data[low : known + 1]
    splits = range(1, len(nights))
    return low + min(splits, key=lambda at: _distance(nights[:at]) + _distance(nights[at:]))


def _distance(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())
