"""Two profiles beside each other: in which functions the samples are, as shares of all samples of each.

A profile is one sample of an arm: a difference of shares has no interval here, and is no verdict. Shares are compared,
not counts, since two arms differ in how much CPU time they used.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfrunner.measure.folded import Folded, Stack

MOST_MOVED = 10
ALL = "all"  # the frame below every stack


@dataclass(frozen=True)
class FunctionShare:
    """A function's own samples (without those of what it calls), as shares of all samples of either arm."""

    function: str
    base: float
    arm: float

    @property
    def difference(self) -> float:
        """Positive: the arm spends a larger share in it than the baseline."""
        return self.arm - self.base


@dataclass
class Frame:
    """A function in one chain of callers, with what it calls: shares of all samples of either arm."""

    name: str
    base: float = 0.0
    arm: float = 0.0
    callees: dict[str, Frame] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The mean of both, so that what only one of them has is seen, too; callees never exceed their caller."""
        return (self.base + self.arm) / 2

    @property
    def difference(self) -> float:
        """Positive: the arm spends a larger share here than the baseline."""
        return self.arm - self.base


def self_shares(profile: Folded) -> dict[str, float]:
    """By function, whatever called it: the share of samples in which it was the innermost."""
    counts: Counter[str] = Counter()
    for stack, count in profile.counts.items():
        counts[stack[-1]] += count
    total = profile.samples
    return {function: count / total for function, count in counts.items()} if total else {}


def most_moved(base: Folded, arm: Folded, most: int = MOST_MOVED) -> tuple[FunctionShare, ...]:
    """The functions whose own share moved most, the largest difference first; none that did not move."""
    before, after = self_shares(base), self_shares(arm)
    found = [
        FunctionShare(name, before.get(name, 0.0), after.get(name, 0.0))
        for name in {**before, **after}
    ]
    moved = [share for share in found if share.difference]
    return tuple(sorted(moved, key=lambda s: (-abs(s.difference), s.function))[:most])


def by_chance(base: int, arm: int, share: float) -> float:
    """How far two shares of about `share` differ by the luck of sampling alone in 1 of 20 profiles of so many samples.

    Two binomial counts, by the normal approximation. Samples of a burst are not independent: the truth is not smaller.
    """
    variance = share * (1 - share) * (1 / base + 1 / arm)
    return NormalDist().inv_cdf(0.975) * math.sqrt(variance)


def frames(base: Folded, arm: Folded) -> Frame:
    """Both as one tree of callers; with one profile given twice, that profile's own tree."""
    root = Frame(ALL)
    before, after = max(1, base.samples), max(1, arm.samples)
    for stack, count in base.counts.items():
        for frame in _chain(root, stack):
            frame.base += count / before
    for stack, count in arm.counts.items():
        for frame in _chain(root, stack):
            frame.arm += count / after
    return root


def _chain(root: Frame, stack: Stack) -> list[Frame]:
    """The frames of a stack, from the root out; made where they are not there yet."""
    chain = [root]
    for name in stack:
        chain.append(chain[-1].callees.setdefault(name, Frame(name)))
    return chain
