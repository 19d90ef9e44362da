"""The sequential rule of a spec with `precision`: in each cell enough blocks, and not one more than needed.

Looked at only after whole blocks, and only at the width of the intervals of the primary metrics, never at a p-value or
an estimate: so it cannot stop because a result pleases. What is counted are the cell's clean blocks, between 10 and 40
of them; a cell that is done is not run again, the others go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.run.events import Decision, Precision

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData
    from perfrunner.spec.cell import CellName

FEWEST_BLOCKS = 10
MOST_BLOCKS = 40


@dataclass(frozen=True)
class Width:
    """Where a cell stands: clean blocks, and the widest half-width of its primary metrics (None: not known yet).

    The half-width is a share: of the baseline for ratios, of 100 for differences of percentages (0.01 = 1 point).
    """

    blocks: int
    half_width: float | None

    def expected_blocks(self, wanted: float, fewest: int = FEWEST_BLOCKS) -> int:
        """How many clean blocks, `fewest` or more, it is likely to take in all, if they spread on as they did.

        Half-widths shrink with the square root of the number of blocks and with Student's t: of two blocks it is 12.7,
        of ten 2.3.
        """
        if self.half_width is None or self.blocks < 2:
            return fewest
        import numpy as np

        from perfrunner.analysis.inference import t_critical
        from perfrunner.analysis.model import CONFIDENCE

        counts = np.arange(fewest, MOST_BLOCKS)
        t = t_critical((1 - CONFIDENCE) / 2, np.array([self.blocks, *counts]) - 1)
        spread = self.half_width * math.sqrt(self.blocks) / t[0]
        narrow = counts[t[1:] * spread / np.sqrt(counts) <= wanted]
        return int(narrow[0]) if len(narrow) else MOST_BLOCKS


def cell_widths(data: ExperimentData) -> dict[CellName, Width]:
    """Of every cell with a primary metric whose interval has a share; bytes and pages have none."""
    from perfrunner.analysis.compare import compare
    from perfrunner.analysis.verdict import deviation

    found: dict[CellName, Width] = {}
    for row in compare(data).rows:
        if not row.primary or row.effect is None:
            continue
        if row.effect.kind == "difference" and row.metric.unit != "%":
            continue
        half: float | None = None
        if row.effect.ci95 is not None:
            low, high = deviation(row.effect, row.effect.ci95)
            half = (high - low) / (200 if row.effect.kind == "difference" else 2)
        cell = (row.cell.workload, row.cell.bucket)
        before = found.get(cell, Width(row.effect.n, 0.0))
        widest = None if half is None or before.half_width is None else max(half, before.half_width)
        found[cell] = Width(min(before.blocks, row.effect.n), widest)
    return found


def decide(
    cell: CellName,
    block: int,
    planned: int,
    width: Width | None,
    wanted: float,
    most: int = MOST_BLOCKS,
) -> Precision:
    """For one cell after whole block `block` of `planned`, never more than `most`.

    `width`: None where no primary metric can be judged so.

    Such a cell has the blocks that the spec says; the others go on until 10 clean blocks at least.
    """
    if width is None:
        return Precision(cell, block, 0, None, wanted, "stop" if block >= planned else "continue")
    narrow = width.half_width is not None and width.half_width <= wanted
    if (width.blocks >= FEWEST_BLOCKS and narrow) or max(block, width.blocks) >= most:
        return Precision(cell, block, width.blocks, width.half_width, wanted, "stop")
    decision: Decision = "extend" if block >= planned else "continue"
    return Precision(cell, block, width.blocks, width.half_width, wanted, decision)
