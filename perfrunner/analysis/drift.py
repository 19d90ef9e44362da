"""Drift of the machine: how far the level of a cell's blocks moved over the time that they ran.

All arms of a block ran together, so that a block gives one number, as it does for an effect: the mean over its arms of
how far each is from its own mean. A least-squares line through the blocks' numbers, with Student's interval of its
slope (scipy.stats.linregress and stats.t, see inference.py). What it cannot see is a level that came back: it is drift
in one direction, while neighbouring blocks that are alike make its interval rather too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.analysis.inference import t_interval
from perfrunner.analysis.model import CONFIDENCE, MIN_BLOCKS, EffectKind, Interval

if TYPE_CHECKING:
    from perfrunner.analysis.cells import CellBlocks
    from perfrunner.spec.metrics import MetricType


@dataclass(frozen=True)
class Drift:
    """From the first block to the last: a ratio, or a difference in the metric's unit."""

    kind: EffectKind
    estimate: float
    ci95: Interval
    blocks: int


def drift(cell: CellBlocks, metric: MetricType) -> Drift | None:
    """None of fewer than six blocks that have the metric, and of a ratio of values that are not all positive."""
    by_arm: dict[str, list[tuple[int, float]]] = {}
    times: dict[int, list[float]] = {}
    for block, trials in cell.blocks.items():
        for trial in trials:
            if metric.id in trial.metrics:
                value = float(trial.metrics[metric.id])
                by_arm.setdefault(trial.variant, []).append((block, value))
                times.setdefault(block, []).append(trial.started_at.timestamp())
    ratio = metric.effect == "ratio"
    if len(times) < MIN_BLOCKS or (
        ratio and any(v <= 0 for its in by_arm.values() for _, v in its)
    ):
        return None
    levels: dict[int, list[float]] = {block: [] for block in times}
    for its in by_arm.values():
        values = [math.log(value) if ratio else value for _, value in its]
        mean = sum(values) / len(values)
        for (block, _), value in zip(its, values, strict=True):
            levels[block].append(value - mean)
    x = np.array([np.mean(times[block]) for block in levels])
    y = np.array([np.mean(levels[block]) for block in levels])
    span = float(np.ptp(x))
    if span <= 0:
        return None
    slope, low, high = _slope((x - x.min()) / span, y)
    back = math.exp if ratio else float
    return Drift("ratio" if ratio else "difference", back(slope), (back(low), back(high)), len(x))


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Of the least-squares line, with its interval: stats.linregress's slope and stderr."""
    away = x - x.mean()
    spread = float(away @ away)
    slope = float(away @ y) / spread
    left = y - y.mean() - slope * away
    freedom = len(x) - 2
    error = math.sqrt(float(left @ left) / freedom / spread)
    return (slope, *t_interval(slope, error, freedom, CONFIDENCE))
