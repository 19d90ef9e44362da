"""Judge the expected effects of a spec (`expected_gains:`), and write them as text and as plain values.

lost      the whole interval lies below the expected minimum
kept      the whole interval is on the good side and reaches the minimum
unsure    the interval includes both the minimum and no change
unjudged  not measured, or without an interval
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perfrunner.analysis.compare import compare
from perfrunner.domain import NO_BUCKET, Case
from perfrunner.report.numbers import change, minus, scale_of
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.model import Comparison, Effect, Row
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.spec.expectations import ExpectedGain
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
        case = Case(expected_gain.workload, expected_gain.bucket or NO_BUCKET)
        metric = metric_type(expected_gain.metric)
        against = expected_gain.against or baseline
        row = None
        if against in comparison.variants:
            if against not in comparisons:
                comparisons[against] = compare(data, against)
            row = comparisons[against].row(case, expected_gain.metric, expected_gain.variant)
        state, why = _judge(expected_gain, metric, row)
        lines.append(ExpectedGainLine(expected_gain, against, case, metric, row, state, why))
    return tuple(lines)


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


STATES = ("kept", "unsure", "unjudged", "lost")


def states_text(expected_gains: Sequence[ExpectedGainLine]) -> str:
    """Count the states of expected gains: `kept 5, lost 1`."""
    states = [line.state for line in expected_gains]
    return ", ".join(f"{state} {states.count(state)}" for state in STATES if state in states)


def lost_warnings(expected_gains: Iterable[ExpectedGainLine]) -> Iterable[str]:
    """Yield a warning for each lost gain, for every format."""
    return (
        f"an expected gain is lost: {expected_gain_text(line)}"
        for line in expected_gains
        if line.state == "lost"
    )


def expected_gain_text(line: ExpectedGainLine) -> str:
    """Return a gain as text: `core against single: HTB/… epilogue: ÷3.9 [3.7, 4.1]; at least 50 % less is expected`."""
    name = f"{line.expected_gain.variant} against {line.against}: {line.metric.id} {line.case}"
    measured = line.why
    if line.row is not None and line.row.effect is not None and not line.why:
        scale = scale_of(line.metric, line.row.summary.mean)
        measured = change(line.row.effect, line.metric, scale)
    return f"{name}: {measured}; at least {expected_text(line)} is expected"


def expected_text(line: ExpectedGainLine) -> str:
    """Return the expected change with its sign."""
    sign = "+" if line.metric.direction == "higher" else "-"
    if line.metric.effect == "ratio":
        return f"{minus(sign)}{100 * line.expected_gain.at_least:g} %"
    unit = "pt" if line.metric.unit == "%" else line.metric.unit
    return f"{minus(sign)}{line.expected_gain.at_least:g} {unit}".rstrip()


def expected_gain_records(report: Report) -> list[dict[str, Any]]:
    """Return the expected gains as plain values."""
    return [
        {
            "variant": line.expected_gain.variant,
            "against": line.against,
            "workload": line.case.workload,
            "bucket": line.case.bucket,
            "metric": line.metric.id,
            "at_least": line.expected_gain.at_least,
            "effect": line.metric.effect,
            "estimate": None if _effect(line) is None else _effect(line).estimate,
            "estimate_ci95": _interval(line),
            "state": line.state,
            "text": expected_gain_text(line),
        }
        for line in report.expected_gains
    ]


def _effect(line: ExpectedGainLine) -> Any:
    return None if line.row is None else line.row.effect


def _interval(line: ExpectedGainLine) -> list[float] | None:
    effect = _effect(line)
    return None if effect is None or effect.ci95 is None else list(effect.ci95)
