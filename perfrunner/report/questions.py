"""Phrase the question that a chart of a metric answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.numbers import TIMES
from perfrunner.report.sentences import noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.spec.metrics import MetricType

LONGEST = 24  # a longer variant name is not repeated in the question
OF_METRICS = (  # start or end of a metric id -> question about a variant
    ("ops_per_s", "Is {} faster?"),
    ("fragmentation", "Does {} waste less memory?"),
    ("latency_", "Does {} have lower latency?"),
    ("_cpu_us_per_op", "Does {} need less CPU time?"),
)
OF_DIRECTIONS = {
    "higher": "Does {} have more {noun}?",
    "lower": "Does {} have less {noun}?",
    "none": "Does {} change {noun}?",
}


def question(metric: MetricType, variants: Sequence[str]) -> str:
    """Return the question for a metric; the first of `variants` is the baseline."""
    others = variants[1:]
    variant = others[0] if len(others) == 1 and len(others[0]) <= LONGEST else "any variant"
    for part, text in OF_METRICS:
        if metric.id.startswith(part) or (part.startswith("_") and metric.id.endswith(part)):
            return text.format(variant)
    if metric.unit in TIMES:
        return f"Does {variant} take less time?"
    if metric.unit.startswith("B"):
        return f"Does {variant} need less memory?"
    return OF_DIRECTIONS[metric.direction].format(variant, noun=noun(metric))
