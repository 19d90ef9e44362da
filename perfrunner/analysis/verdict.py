"""From an effect, its q and its margin to a verdict; what it could have seen, and how many more blocks would settle it.

"Could have seen", "would settle" and a noise floor all mean the same: with probability POWER, by the noncentral t
distribution.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.analysis.inference import t_critical, t_noncentrality, t_power
from perfrunner.analysis.model import ALPHA, CONFIDENCE, MIN_BLOCKS, Effect, Interval, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfrunner.spec.metrics import Direction

    Array = NDArray[np.float64]
    Sizes = NDArray[np.int64]

POWER = 0.8
MOST_BLOCKS = 1000  # beyond it the honest answer is that more blocks will not do


def decide(effect: Effect, direction: Direction) -> tuple[Verdict | None, bool, str]:
    """(verdict, small, reason). `effect.q` must be known.

    No verdict under MIN_BLOCKS blocks, for an unpaired effect or for a metric without a direction.
    """
    if not effect.paired:
        return None, False, "not interleaved: an interval, no verdict"
    if effect.n < MIN_BLOCKS:
        return None, False, f"{_blocks(effect.n)}: numbers only, a verdict needs {MIN_BLOCKS}"
    if direction == "none":
        return None, False, "neither direction is better"
    assert effect.ci95 is not None and effect.q is not None  # noqa: PT018 - n >= MIN_BLOCKS
    low, high = deviation(effect, effect.ci95)
    margin, nothing = margin_deviation(effect), resolution_deviation(effect)
    if effect.q < ALPHA and (low > nothing or high < -nothing):
        rises = low > 0
        verdict: Verdict = "better" if rises == (direction == "higher") else "worse"
        return verdict, -margin <= low and high <= margin, ""
    alike = max(margin, nothing)
    if -alike <= low and high <= alike:
        return "same", False, ""
    return "unsure", False, ""


def smallest_visible(effect: Effect, level: float = ALPHA) -> float | None:
    """The smallest true change that so many blocks of this noise find, with probability POWER at `level`.

    A share for a ratio, the metric's unit for a difference. None where the spread is not known.
    """
    if effect.sd is None or effect.n < 2:
        return None
    reach = _noncentrality(effect.n, level) * effect.sd / math.sqrt(effect.n)
    seen = resolution_deviation(effect) + reach
    return math.expm1(seen) if effect.kind == "ratio" else seen


def corrected_level(effect: Effect) -> float:
    """The level that the correction for multiple testing left to this test."""
    if effect.p is None or effect.q is None or effect.q <= 0:
        return ALPHA
    return ALPHA * effect.p / effect.q


def more_blocks(effects: Sequence[Effect]) -> list[int | None]:
    """For each *unsure* effect about how many more blocks would settle it; None beyond MOST_BLOCKS.

    It is settled when the change found so far is significant (by the noncentral t distribution, with
    probability POWER, at the level that the correction left to this test), or when the interval
    around it has shrunk into the margin. The cheaper of the two counts.
    """
    tested = [e for e in effects if e.sd is not None and e.p is not None and e.q is not None]
    n = np.array([effect.n for effect in tested], dtype=np.int64)
    sd = np.array([effect.sd for effect in tested], dtype=np.float64)
    level = np.array([corrected_level(effect) for effect in tested])
    found = np.array([abs(deviation(e, (e.estimate, e.estimate))[0]) for e in tested])
    nothing = np.array([resolution_deviation(effect) for effect in tested])
    margin = np.maximum(np.array([margin_deviation(effect) for effect in tested]), nothing)
    by_power = _blocks_for_power(found - nothing, sd, level, n)
    wanted = np.minimum(by_power, _blocks_for_width(margin - found, sd, n))
    more = iter((wanted - n).tolist())
    return [
        None
        if e.sd is None or e.p is None or e.q is None or (its := next(more)) > MOST_BLOCKS
        else its
        for e in effects
    ]


def deviation(effect: Effect, interval: Interval) -> Interval:
    """An interval as a signed distance from no change: log ratio, or difference."""
    if effect.kind == "ratio":
        return math.log(interval[0]), math.log(interval[1])
    return interval


def margin_deviation(effect: Effect) -> float:
    """The margin on the scale of `deviation`. A 1 % margin on a ratio is 1/1.01 to 1.01."""
    return math.log1p(effect.margin) if effect.kind == "ratio" else effect.margin


def resolution_deviation(effect: Effect) -> float:
    """The resolution on the scale of `deviation`."""
    return math.log1p(effect.resolution) if effect.kind == "ratio" else effect.resolution


@functools.lru_cache(maxsize=1024)
def _noncentrality(n: int, level: float) -> float:
    """How many standard errors a change must be, to be found with probability POWER by n blocks at `level`."""
    return t_noncentrality(float(t_critical(level / 2, n - 1)), n - 1, POWER)


def _blocks_for_power(d: Array, sd: Array, level: Array, n: Sizes) -> Sizes:
    shift = np.divide(d, sd, out=np.zeros_like(sd), where=(d > 0) & (sd > 0))

    def holds(sizes: Sizes) -> NDArray[np.bool_]:
        critical = t_critical(level / 2, sizes - 1)
        return t_power(critical, sizes - 1, shift * np.sqrt(sizes)) >= POWER

    return _first(n, holds)


def _blocks_for_width(room: Array, sd: Array, n: Sizes) -> Sizes:
    def holds(sizes: Sizes) -> NDArray[np.bool_]:
        half = t_critical((1 - CONFIDENCE) / 2, sizes - 1) * sd / np.sqrt(sizes)
        return (room > 0) & (half <= room)

    return _first(n, holds)


def _first(n: Sizes, holds: Callable[[Sizes], NDArray[np.bool_]]) -> Sizes:
    """For each the smallest number beyond `n` for which it holds (and then for all beyond), or n + MOST_BLOCKS + 1."""
    below, at = n.copy(), n + MOST_BLOCKS + 1
    while (at - below > 1).any():
        middle = (below + at + 1) // 2  # never `below`: what is found already stays as it is
        found = holds(middle)
        below, at = np.where(found, below, middle), np.where(found, middle, at)
    return at


def _blocks(n: int) -> str:
    return "1 block" if n == 1 else f"{n} blocks"
