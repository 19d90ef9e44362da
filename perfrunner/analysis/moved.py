"""What moved together with a result: the why beside the what."""

from __future__ import annotations

import math

from perfrunner.analysis.model import ALPHA, Cell, Comparison, Row


def moved_with(comparison: Comparison, cell: Cell, variant: str) -> list[Row]:
    """The other metrics of that variant that changed (q < 0.05), the clearest first.

    Primary metrics are left out: they are the what. A change without any spread counts as the
    clearest of all.
    """
    rows = [row for row in comparison.arm(cell, variant) if not row.primary and _moved(row)]
    return sorted(rows, key=_clarity, reverse=True)


def _moved(row: Row) -> bool:
    return row.effect is not None and row.effect.q is not None and row.effect.q < ALPHA


def _clarity(row: Row) -> float:
    if row.effect is None:
        return 0.0
    return math.inf if row.effect.t is None else abs(row.effect.t)
