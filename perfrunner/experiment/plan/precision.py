"""The rule behind `precision`: how many blocks a case gets, from the widths of its intervals alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.domain import Case
from perfrunner.experiment.events import Decision, Precision

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData

FEWEST_BLOCKS = 10
MOST_BLOCKS = 40


@dataclass(frozen=True)
class Width:
    """The precision that a case has reached: clean blocks, and the widest half-width of its primary metrics.

    The half-width is a fraction of the baseline for ratios, and of 100 for differences of percentages (0.01 = 1
    point). None means that it is not known yet.
    """

    blocks: int
    half_width: float | None

    def expected_blocks(self, wanted: float, fewest: int = FEWEST_BLOCKS) -> int:
        """Estimate the total number of clean blocks, at least `fewest`, until the half-width is `wanted`.

        Assumes that later blocks vary as much as earlier ones. Half-widths shrink with the square root of the number of
        blocks and with Student's t, which is 12.7 for two blocks and 2.3 for ten.
        """
        if self.half_width is None or self.blocks < 2:
            return fewest
        import numpy as np

        from perfrunner.analysis.inference import t_critical
        from perfrunner.analysis.looks import PRECISE

        counts = np.arange(fewest, MOST_BLOCKS)
        t = t_critical(PRECISE / 2, np.array([self.blocks, *counts]) - 1)
        spread = self.half_width * math.sqrt(self.blocks) / t[0]
        narrow = counts[t[1:] * spread / np.sqrt(counts) <= wanted]
        return int(narrow[0]) if len(narrow) else MOST_BLOCKS


def case_widths(data: ExperimentData) -> dict[Case, Width]:
    """Return the width of every case that has a primary metric with a relative interval.

    Differences in bytes or pages have no relative interval. The interval is the one that the report shows if the case
    stops: it is wider than that of a planned number of blocks, because a case tends to stop while its spread looks
    small.
    """
    from perfrunner.analysis.compare import compare
    from perfrunner.analysis.inference import t_critical
    from perfrunner.analysis.looks import PRECISE

    widths: dict[Case, Width] = {}
    for row in compare(data).rows:
        if not row.primary or row.effect is None:
            continue
        if row.effect.kind == "difference" and row.metric.unit != "%":
            continue
        half: float | None = None
        if row.effect.sd is not None:
            error = row.effect.sd / math.sqrt(row.effect.n)
            half = float(t_critical(PRECISE / 2, row.effect.n - 1)) * error
            half /= 100 if row.effect.kind == "difference" else 1
        before = widths.get(row.case, Width(row.effect.n, 0.0))
        widest = None if half is None or before.half_width is None else max(half, before.half_width)
        widths[row.case] = Width(min(before.blocks, row.effect.n), widest)
    return widths


def decide(
    case: Case,
    block: int,
    planned: int,
    width: Width | None,
    wanted: float,
    most: int = MOST_BLOCKS,
) -> Precision:
    """Decide for one case, after block `block` of `planned` is complete, whether to stop, continue or extend.

    `width` is None when no primary metric has a relative interval: such a case runs the planned blocks. The others
    run at least 10 clean blocks and at most `most` blocks.
    """
    if width is None:
        return Precision(case, block, 0, None, wanted, "stop" if block >= planned else "continue")
    narrow = width.half_width is not None and width.half_width <= wanted
    if (width.blocks >= FEWEST_BLOCKS and narrow) or max(block, width.blocks) >= most:
        return Precision(case, block, width.blocks, width.half_width, wanted, "stop")
    decision: Decision = "extend" if block >= planned else "continue"
    return Precision(case, block, width.blocks, width.half_width, wanted, decision)
