"""Compare two CPU profiles: the functions in which the samples are, as shares of all samples of each.

A profile is one sample of a variant: a difference of shares has no interval and is no verdict. Shares are
compared, not counts, because two variants differ in how much CPU time they use.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfrunner.measure.cpu_profile import Folded, Stack

MOST_MOVED = 10
ALL = "all"  # the frame below every stack


@dataclass(frozen=True)
class FunctionShare:
    """The samples in a function itself, without its callees, as shares of all samples of each variant."""

    function: str
    base: float
    variant: float

    @property
    def difference(self) -> float:
        """The difference of the shares; positive if the variant spends a larger share than the baseline."""
        return self.variant - self.base


@dataclass
class Frame:
    """A function in one chain of callers, with its callees, as shares of all samples of each variant."""

    name: str
    base: float = 0.0
    variant: float = 0.0
    callees: dict[str, Frame] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The mean of both shares, which also shows a frame that only one has. Callees never exceed their caller."""
        return (self.base + self.variant) / 2

    @property
    def difference(self) -> float:
        """The difference of the shares; positive if the variant spends a larger share than the baseline."""
        return self.variant - self.base


def self_shares(profile: Folded) -> dict[str, float]:
    """Return for each function the share of samples in which it was the innermost, under any caller."""
    counts: Counter[str] = Counter()
    for stack, count in profile.counts.items():
        counts[stack[-1]] += count
    total = profile.samples
    return {function: count / total for function, count in counts.items()} if total else {}


def most_moved(base: Folded, variant: Folded, most: int = MOST_MOVED) -> tuple[FunctionShare, ...]:
    """Return the functions whose own share changed most, the largest difference first."""
    before, after = self_shares(base), self_shares(variant)
    shares = [
        FunctionShare(name, before.get(name, 0.0), after.get(name, 0.0))
        for name in {**before, **after}
    ]
    moved = [share for share in shares if share.difference]
    return tuple(sorted(moved, key=lambda s: (-abs(s.difference), s.function))[:most])


def by_chance(base: int, variant: int, share: float) -> float:
    """Return how far two shares of about `share` differ by chance in 1 of 20 pairs of profiles.

    `base` and `variant` are the numbers of samples. The formula is the normal approximation for two binomial
    counts. Samples of a burst are not independent, so the true value is not smaller.
    """
    variance = share * (1 - share) * (1 / base + 1 / variant)
    return NormalDist().inv_cdf(0.975) * math.sqrt(variance)


def frames(base: Folded, variant: Folded) -> Frame:
    """Merge both profiles into one tree of callers. One profile given twice yields that profile's own tree."""
    root = Frame(ALL)
    before, after = max(1, base.samples), max(1, variant.samples)
    for stack, count in base.counts.items():
        for frame in _chain(root, stack):
            frame.base += count / before
    for stack, count in variant.counts.items():
        for frame in _chain(root, stack):
            frame.variant += count / after
    return root


def _chain(root: Frame, stack: Stack) -> list[Frame]:
    """Return the frames of a stack from the root outwards, creating missing ones."""
    chain = [root]
    for name in stack:
        chain.append(chain[-1].callees.setdefault(name, Frame(name)))
    return chain
