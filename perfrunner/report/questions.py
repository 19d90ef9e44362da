"""The question that a chart of a metric answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.numbers import TIMES
from perfrunner.report.sentences import noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.spec.metrics import MetricType

LONGEST = 24  # letters of an arm that is asked for by its name
OF_METRICS = (  # what its id begins or ends with -> what is asked about an arm
    ("ops_per_s", "Is {} faster?"),
    ("fragmentation", "Does {} waste less memory?"),
    ("latency_", "Does {} answer sooner?"),
    ("_cpu_us_per_op", "Does {} need less CPU time?"),
)
OF_DIRECTIONS = {
    "higher": "Does {} have more {noun}?",
    "lower": "Does {} have less {noun}?",
    "none": "Does {} change {noun}?",
}


def question(metric: MetricType, variants: Sequence[str]) -> str:
    """What a change of the metric is looked at for; `variants` begin with the baseline."""
    others = variants[1:]
    arm = others[0] if len(others) == 1 and len(others[0]) <= LONGEST else "any arm"
    for part, text in OF_METRICS:
        if metric.id.startswith(part) or (part.startswith("_") and metric.id.endswith(part)):
            return text.format(arm)
    if metric.unit in TIMES:
        return f"Does {arm} take less time?"
    if metric.unit.startswith("B"):
        return f"Does {arm} need less memory?"
    return OF_DIRECTIONS[metric.direction].format(arm, noun=noun(metric))
