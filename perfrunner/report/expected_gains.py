"""Write the expected gains of a spec as text and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import change, minus, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.expected_gains import ExpectedGainLine
    from perfrunner.report.model import Report

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
