"""Judge whether an effect that a spec expects (`expected_gains:`) is still there.

lost      the whole interval lies below the expected minimum
kept      the whole interval is on the good side and reaches the minimum
unsure    the interval includes both the minimum and no change
unjudged  not measured, or without an interval
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.compare import compare
from perfrunner.domain import NO_BUCKET, Case
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.model import Comparison, Effect, Row
    from perfrunner.results import ExperimentData
    from perfrunner.spec.expected_gains import ExpectedGain
    from perfrunner.spec.metrics import MetricType

State: TypeAlias = Literal["kept", "lost", "unsure", "unjudged"]


@dataclass(frozen=True)
class ExpectedGainLine:
    """An expected gain and its state in this run. `why` says why it is not judged."""

    expected_gain: ExpectedGain
    against: str
    case: Case
    metric: MetricType
    row: Row | None
    state: State
    why: str = ""


def judged_expected_gains(
    data: ExperimentData, comparison: Comparison, expected_gains: Iterable[ExpectedGain]
) -> tuple[ExpectedGainLine, ...]:
    """Judge all expected gains in the order of the spec, each against the variant that it names."""
    comparisons: dict[str, Comparison] = {comparison.baseline: comparison}
    baseline = str(data.experiment.spec_json.get("baseline") or comparison.baseline)
    lines = []
    for expected_gain in expected_gains:
        against = expected_gain.against or baseline
        if against not in comparison.variants:
            lines.append(_line(expected_gain, against, None))
            continue
        if against not in comparisons:
            comparisons[against] = compare(data, against)
        case = Case(expected_gain.workload, expected_gain.bucket or NO_BUCKET)
        lines.append(
            _line(
                expected_gain,
                against,
                comparisons[against].row(case, expected_gain.metric, expected_gain.variant),
            )
        )
    return tuple(lines)


def _line(expected_gain: ExpectedGain, against: str, row: Row | None) -> ExpectedGainLine:
    metric = metric_type(expected_gain.metric)
    state, why = _judge(expected_gain, metric, row)
    case = Case(expected_gain.workload, expected_gain.bucket or NO_BUCKET)
    return ExpectedGainLine(expected_gain, against, case, metric, row, state, why)


def _judge(expected_gain: ExpectedGain, metric: MetricType, row: Row | None) -> tuple[State, str]:
    if row is None:
        return "unjudged", "not measured in this run"
    effect = row.effect
    if row.verdict == "not comparable" or effect is None or effect.ci95 is None:
        return "unjudged", row.reason or "the effect has no interval"
    least, most = _gained(metric, effect)
    if most < expected_gain.at_least:
        return "lost", ""
    return ("kept" if least > 0 else "unsure"), ""


def _gained(metric: MetricType, effect: Effect) -> tuple[float, float]:
    """Return the ends of the interval as gains: positive is better, the smaller end first."""
    assert effect.ci95 is not None
    low, high = (end - effect.neutral for end in effect.ci95)
    return (low, high) if metric.direction == "higher" else (-high, -low)
