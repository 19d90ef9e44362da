"""Whether a cell's figures are the engine's: a saturated load client, and a load that waited for a CPU of a busy host.

Both are judged over all trials of the cell that count. A trial alone must not be thrown away for a busy client: the
faster the engine, the busier its client, so what is left would be the faster arm's slow moments
(tests/unit/analysis/test_saturation.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from perfrunner.analysis.enough import RATES
from perfrunner.measure.turns import WAITS_FACT
from perfrunner.measure.window import BUSY_FACT

if TYPE_CHECKING:
    from perfrunner.analysis.cells import CellBlocks

BUSY_HOST = 0.25  # of the slices of a median block: a quiet host has 0.01 to 0.03


def saturated(blocks: CellBlocks, metric: str, arms: Iterable[str], limit: float) -> str:
    """Why a rate or a latency is the client's and not the engine's; empty where it is not, or nobody says."""
    if metric not in RATES and not metric.startswith("latency_"):
        return ""
    for arm in arms:
        told = [trial.facts.get(BUSY_FACT) for trial in blocks.of(arm)]
        busy = [float(value) for value in told if isinstance(value, (int, float))]
        if busy and median(busy) > limit:
            return (
                f"the load client is saturated: its busiest thread is {median(busy):.0%} busy with {arm}"
                f" (limit {limit:.0%}), so this is the client's figure"
            )
    return ""


def busy_hosts(cells: Iterable[CellBlocks]) -> Iterable[str]:
    """A sentence for each cell whose load mostly met a busy host."""
    for blocks in cells:
        shares = []
        for trials in blocks.blocks.values():
            told = [trial.facts.get(WAITS_FACT) for trial in trials]
            known = [float(value) for value in told if isinstance(value, (int, float))]
            if known:
                shares.append(sum(known) / len(known))
        if shares and median(shares) > BUSY_HOST:
            yield (
                f"{blocks.cell}: the host was busy: in {median(shares):.0%} of the slices the load waited for a CPU;"
                " a difference of the engines looks smaller than it is"
            )
