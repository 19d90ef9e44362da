"""From an effect, its q and its margin to a verdict; what it could have seen, and a plan for what is *unsure*.

All detection limits (smallest visible change, further blocks, noise floor) hold with probability POWER, by
the noncentral t distribution.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.analysis.inference import MOST_LOG, ratio_of, t_critical, t_noncentrality, t_power
from perfrunner.analysis.model import ALPHA, Effect, Interval
from perfrunner.domain import MARGIN_ROUNDING, MIN_BLOCKS, Verdict
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfrunner.spec.metrics import Direction

    Array = NDArray[np.float64]
    Sizes = NDArray[np.int64]

POWER = 0.8
MOST_BLOCKS = 1000  # beyond this, more blocks will not help


def decide(effect: Effect, direction: Direction) -> tuple[Verdict | None, bool, str]:
    """Return (verdict, small, reason). `effect.q` must be known.

    *Same* is shown by two one-sided tests, each at the level of the effect: the interval of confidence 1 - 2 * level
    (90 %) lies within the margin.
    No verdict under MIN_BLOCKS blocks, for an unpaired effect or for a metric without a direction.
    """
    if not effect.paired:
        return None, False, "not interleaved: an interval, no verdict"
    blocks = count_of(effect.n, "block")
    if effect.n < MIN_BLOCKS:
        return None, False, f"{blocks}: numbers only, a verdict needs {MIN_BLOCKS}"
    if effect.ci95 is None:
        return None, False, f"{blocks}: too few for an interval that holds at any moment"
    if direction == "none":
        return None, False, "neither direction is better"
    assert effect.q is not None
    low, high = deviation(effect, effect.ci95)
    margin, nothing = margin_deviation(effect), resolution_deviation(effect)
    if effect.q < ALPHA and (low > nothing or high < -nothing):
        rises = low > 0
        verdict: Verdict = "better" if rises == (direction == "higher") else "worse"
        return verdict, -margin <= low and high <= margin, ""
    alike = max(margin, nothing)
    low, high = deviation(effect, interval_at(effect, 1 - 2 * effect.level) or effect.ci95)
    if -alike <= low and high <= alike:
        return "same", False, ""
    return "unsure", False, ""


def smallest_visible(effect: Effect, level: float = ALPHA) -> float | None:
    """Return the smallest true change that this number of blocks finds with probability POWER at `level`.

    The result is a share for a ratio, otherwise in the metric's unit. None if the spread is unknown.
    """
    if effect.sd is None or effect.n < 2:
        return None
    return _visible(effect, effect.n, level)


def corrected_level(effect: Effect) -> float:
    """Return the level that the correction for multiple testing leaves to this test."""
    if effect.p is None or effect.q is None or effect.q <= 0:
        return effect.level
    return effect.level * effect.p / effect.q


def more_blocks(effects: Sequence[Effect], level: float = ALPHA) -> list[tuple[int, float] | None]:
    """Plan how many more blocks would settle each *unsure* effect, and what they would then show.

    `level` is that of the next look. The plan is the smallest number of blocks that, with probability POWER, finds a
    change as large as the estimate is likely to be, or one as large as the margin, or shows *same*. The estimate is
    shrunk towards no change by its own uncertainty, because the one found tends to exaggerate (positive-part James and
    Stein). Each plan comes with the smallest change that it finds with probability POWER (a share for a ratio, else in
    the metric's unit). None: more than MOST_BLOCKS, or the spread is not known.
    """
    tested = [e for e in effects if e.sd is not None and e.p is not None and e.q is not None]
    n = np.array([effect.n for effect in tested], dtype=np.int64)
    sd = np.array([effect.sd for effect in tested], dtype=np.float64)
    at = np.array([level / e.level * corrected_level(e) if e.level else level for e in tested])
    estimated = np.array([abs(deviation(e, (e.estimate, e.estimate))[0]) for e in tested])
    nothing = np.array([resolution_deviation(effect) for effect in tested])
    margin = np.maximum(np.array([margin_deviation(effect) for effect in tested]), nothing)
    likely = _shrunk(estimated, sd / np.sqrt(n))
    sizes = np.minimum(
        _blocks_for_power(np.maximum(likely, margin) - nothing, sd, at, n),
        _blocks_for_same(margin, likely, sd, level, n),
    )
    plans = iter(
        None
        if size - e.n > MOST_BLOCKS
        else (int(size) - e.n, _visible(e, int(size), float(tested_at)))
        for e, size, tested_at in zip(tested, sizes, at, strict=True)
    )
    return [None if e.sd is None or e.p is None or e.q is None else next(plans) for e in effects]


def interval_at(effect: Effect, confidence: float) -> Interval | None:
    """Return the interval of another confidence around a paired effect's estimate; `ci95` is that of 1 - level."""
    if effect.ci95 is None or not effect.paired:
        return effect.ci95
    freedom = effect.n - 1
    tails = np.array([(1 - confidence) / 2, effect.level / 2])
    wanted, known = t_critical(tails, freedom)
    middle, _ = deviation(effect, (effect.estimate, effect.estimate))
    low, high = (
        float(middle + (end - middle) * wanted / known) for end in deviation(effect, effect.ci95)
    )
    if effect.kind == "ratio":
        return float(ratio_of(low)), float(ratio_of(high))
    return low, high


def deviation(effect: Effect, interval: Interval) -> Interval:
    """Return an interval as signed distances from no change: log ratios, or differences."""
    if effect.kind == "ratio":
        return math.log(interval[0]), math.log(interval[1])
    return interval


def margin_deviation(effect: Effect) -> float:
    """Return the margin on the scale of `deviation`. A 1 % margin of a ratio is 1/1.01 to 1.01."""
    margin = math.log1p(effect.margin) if effect.kind == "ratio" else effect.margin
    return margin * (1 + MARGIN_ROUNDING)


def resolution_deviation(effect: Effect) -> float:
    """Return the resolution on the scale of `deviation`."""
    return math.log1p(effect.resolution) if effect.kind == "ratio" else effect.resolution


def _visible(effect: Effect, n: int, level: float) -> float:
    """Return the smallest change that `n` blocks with the spread of this effect find with probability POWER."""
    assert effect.sd is not None
    seen = resolution_deviation(effect) + _noncentrality(n, level) * effect.sd / math.sqrt(n)
    return float(math.expm1(min(seen, MOST_LOG)) if effect.kind == "ratio" else seen)


def _shrunk(estimated: Array, error: Array) -> Array:
    """Shrink sizes of estimates towards zero by their standard errors."""
    share = np.divide(error, estimated, out=np.ones_like(estimated), where=estimated > error)
    shrunk: Array = estimated * (1 - share**2)
    return shrunk


@functools.lru_cache(maxsize=1024)
def _noncentrality(n: int, level: float) -> float:
    """Return the change, in standard errors, that n blocks find with probability POWER at `level`."""
    return t_noncentrality(float(t_critical(level / 2, n - 1)), n - 1, POWER)


def _blocks_for_power(d: Array, sd: Array, level: Array, n: Sizes) -> Sizes:
    shift = np.divide(d, sd, out=np.zeros_like(sd), where=(d > 0) & (sd > 0))

    def holds(sizes: Sizes) -> NDArray[np.bool_]:
        critical = t_critical(level / 2, sizes - 1)
        return t_power(critical, sizes - 1, shift * np.sqrt(sizes)) >= POWER

    return _first(n, holds)


def _blocks_for_same(margin: Array, change: Array, sd: Array, level: float, n: Sizes) -> Sizes:
    """Return the number of blocks that show *same* with probability POWER, if the true change is `change`."""
    room = margin - change
    # Without a change both one-sided tests can fail, so that each has to hold more often.
    chance = np.where(change > 0, POWER, (1 + POWER) / 2)

    def holds(sizes: Sizes) -> NDArray[np.bool_]:
        shift = np.divide(room, sd, out=np.zeros_like(sd), where=sd > 0) * np.sqrt(sizes)
        return (room > 0) & (t_power(t_critical(level, sizes - 1), sizes - 1, shift) >= chance)

    return _first(n, holds)


def _first(n: Sizes, holds: Callable[[Sizes], NDArray[np.bool_]]) -> Sizes:
    """Return the smallest number above `n` for which `holds`, or n + MOST_BLOCKS + 1; monotonic in the number."""
    below, at = n.copy(), n + MOST_BLOCKS + 1
    while (at - below > 1).any():
        middle = (below + at + 1) // 2  # never `below`: entries that are settled do not change
        settled = holds(middle)
        below, at = np.where(settled, below, middle), np.where(settled, middle, at)
    return at
