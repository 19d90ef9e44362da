"""The sequential rule of a spec with `precision`: enough blocks, and not one more than needed.

Looked at only after whole blocks, between 10 and 40 of them, and only at the width of the intervals of the primary
metrics, never at a p-value or an estimate: so it cannot stop because a result pleases.
"""

from __future__ import annotations

from perfrunner.results import ExperimentData
from perfrunner.run.events import Precision

MIN_BLOCKS = 10
MAX_BLOCKS = 40


def widest_half_width(data: ExperimentData) -> float | None:
    """As a share: of the baseline for ratios, of 100 for differences of percentages (0.01 = 1 point).

    None while an interval cannot be computed, or when no primary metric can be judged so.
    """
    from perfrunner.analysis.compare import compare
    from perfrunner.analysis.verdict import deviation

    widths = []
    for row in compare(data).rows:
        if not row.primary or row.effect is None:
            continue
        if row.effect.kind == "difference" and row.metric.unit != "%":
            continue  # bytes and pages have no share
        if row.effect.ci95 is None:
            return None
        low, high = deviation(row.effect, row.effect.ci95)
        width = (high - low) / 2
        widths.append(width / 100 if row.effect.kind == "difference" else width)
    return max(widths) if widths else None


def decide(
    block: int, planned: int, half_width: float | None, wanted: float, most: int = MAX_BLOCKS
) -> Precision:
    """After whole block `block` of `planned`, never more than `most`. Under 10 blocks the run simply continues."""
    if block >= MIN_BLOCKS and half_width is not None and half_width <= wanted:
        return Precision(block, half_width, wanted, "stop")
    if block >= most:
        return Precision(block, half_width, wanted, "stop")
    return Precision(block, half_width, wanted, "extend" if block >= planned else "continue")
