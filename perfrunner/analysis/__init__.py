"""Compute estimates with intervals and verdicts from stored trials. This package only reads the result store."""

from __future__ import annotations

from perfrunner.analysis.compare import compare, compare_unpaired
from perfrunner.analysis.model import Comparison, DiscardedTrial, Effect, Row, Summary
from perfrunner.analysis.other_metrics import moved_with

__all__ = [
    "Comparison",
    "DiscardedTrial",
    "Effect",
    "Row",
    "Summary",
    "compare",
    "compare_unpaired",
    "moved_with",
]
