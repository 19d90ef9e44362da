"""Is a gain that a spec knows of (`gains:`) still there?

lost      the whole interval falls short of what the gain is at least: certain
kept      the whole interval is on the good side, and reaches it
unsure    the interval reaches it, and no change too
unjudged  not measured, or without an interval
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.analysis.compare import compare
from perfrunner.analysis.model import Cell
from perfrunner.spec.cell import NO_BUCKET
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.model import Comparison, Effect, Row
    from perfrunner.results import ExperimentData
    from perfrunner.spec.gains import Gain
    from perfrunner.spec.metrics import MetricType

State: TypeAlias = Literal["kept", "lost", "unsure", "unjudged"]


@dataclass(frozen=True)
class GainLine:
    """A known gain and what the run says of it. `why` is set where it is not judged."""

    gain: Gain
    against: str
    cell: Cell
    metric: MetricType
    row: Row | None
    state: State
    why: str = ""


def judged_gains(
    data: ExperimentData, comparison: Comparison, gains: Iterable[Gain]
) -> tuple[GainLine, ...]:
    """In the order of the spec; a gain against another variant than the baseline is compared with that."""
    found: dict[str, Comparison] = {comparison.baseline: comparison}
    baseline = str(data.experiment.spec_json.get("baseline") or comparison.baseline)
    lines = []
    for gain in gains:
        against = gain.against or baseline
        if against not in comparison.variants:
            lines.append(_line(gain, against, None))
            continue
        if against not in found:
            found[against] = compare(data, against)
        cell = Cell(gain.workload, gain.bucket or NO_BUCKET)
        lines.append(_line(gain, against, found[against].row(cell, gain.metric, gain.variant)))
    return tuple(lines)


def _line(gain: Gain, against: str, row: Row | None) -> GainLine:
    metric = metric_type(gain.metric)
    state, why = _judge(gain, metric, row)
    cell = Cell(gain.workload, gain.bucket or NO_BUCKET)
    return GainLine(gain, against, cell, metric, row, state, why)


def _judge(gain: Gain, metric: MetricType, row: Row | None) -> tuple[State, str]:
    if row is None:
        return "unjudged", "not measured in this run"
    effect = row.effect
    if row.verdict == "invalid" or effect is None or effect.ci95 is None:
        return "unjudged", row.reason or "without an interval"
    least, most = _gained(metric, effect)
    if most < gain.at_least:
        return "lost", ""
    return ("kept" if least > 0 else "unsure"), ""


def _gained(metric: MetricType, effect: Effect) -> tuple[float, float]:
    """The ends of the interval as gains: positive is better, the smaller first."""
    assert effect.ci95 is not None
    low, high = (end - effect.neutral for end in effect.ci95)
    return (low, high) if metric.direction == "higher" else (-high, -low)
