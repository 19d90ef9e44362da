"""Where the robust estimate of throughput and its totals disagree: the difference sits in rare slices.

The robust one leaves out what only a few slices meet, a stall of the host and a stall of the engine alike. The totals
hold every slice. So their disagreement, tested over blocks, is what a variant does rarely.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perfrunner.analysis.estimate import paired_effect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.cells import CellBlocks
    from perfrunner.analysis.model import Effect

ROBUST, TOTAL, SLOW = "ops_per_s", "ops_per_s_total", "slow_slices"
NAMED = "the difference sits in rare slices"
MIN_SHARE = 0.25  # of the margin: a smaller disagreement is not worth a note


def rare_slices(blocks: CellBlocks, baseline: str, variant: str, margin: float) -> Iterable[str]:
    """A note, or none. `margin` is that of the robust estimate, a share.

    Both effects come from the same trials: what is tested is, over blocks, the difference of their log ratios.
    """
    robust = blocks.paired(ROBUST, baseline, variant)
    total = blocks.paired(TOTAL, baseline, variant)
    both = robust.base.keys() & total.base.keys()
    figures = [
        values[b] for pair in (robust, total) for values in (pair.base, pair.other) for b in both
    ]
    if len(both) < 2 or min(figures) <= 0:
        return
    gap = paired_effect(
        "ratio",
        baseline,
        {b: robust.other[b] / robust.base[b] for b in both},
        {b: total.other[b] / total.base[b] for b in both},
        margin,
    )
    if not _excludes_one(gap) or abs(math.log(gap.estimate)) <= MIN_SHARE * math.log1p(margin):
        return
    by_total = paired_effect(
        "ratio",
        baseline,
        {b: total.base[b] for b in both},
        {b: total.other[b] for b in both},
        margin,
    )
    yield f"by totals {_percent(by_total)}: {NAMED}{_slow(blocks, baseline, variant)}"


def _slow(blocks: CellBlocks, baseline: str, variant: str) -> str:
    slow = blocks.paired(SLOW, baseline, variant)
    if not slow.base:
        return ""
    its, bases = (sum(v.values()) / len(v) for v in (slow.other, slow.base))
    return f" ({its:.2g} % of its slices are slower than twice its median, {bases:.2g} % of the baseline's)"


def _excludes_one(effect: Effect) -> bool:
    return effect.ci95 is not None and not effect.ci95[0] <= 1.0 <= effect.ci95[1]


def _percent(effect: Effect) -> str:
    assert effect.ci95 is not None
    estimate, low, high = (
        f"{100 * (ratio - 1):+.1f}".replace("-", "\N{MINUS SIGN}")
        for ratio in (effect.estimate, *effect.ci95)
    )
    return f"{estimate} % [{low}, {high}]"
