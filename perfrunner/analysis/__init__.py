"""From stored trials to estimates with intervals and verdicts. Reads the store only."""

from __future__ import annotations

from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.analysis.model import (
    MIN_BLOCKS,
    Cell,
    Comparison,
    Effect,
    Row,
    Summary,
    Verdict,
    VoidTrial,
)
from perfrunner.analysis.moved import moved_with

__all__ = [
    "MIN_BLOCKS",
    "Cell",
    "Comparison",
    "Effect",
    "Row",
    "Summary",
    "Verdict",
    "VoidTrial",
    "compare",
    "compare_unpaired",
    "moved_with",
]
