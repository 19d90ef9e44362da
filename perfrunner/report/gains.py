"""The known gains of a spec: as text, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import change, minus, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.gains import GainLine
    from perfrunner.report.model import Report

STATES = ("kept", "unsure", "unjudged", "lost")


def states_text(gains: Sequence[GainLine]) -> str:
    """`kept 5, lost 1`."""
    states = [line.state for line in gains]
    return ", ".join(f"{state} {states.count(state)}" for state in STATES if state in states)


def lost_warnings(gains: Iterable[GainLine]) -> Iterable[str]:
    """A line each: above the numbers, in every format."""
    return (f"a known gain is lost: {gain_text(line)}" for line in gains if line.state == "lost")


def gain_text(line: GainLine) -> str:
    """`core against single: HTB/… epilogue: ÷3.9 [3.7, 4.1], at least 50 % less is expected`."""
    name = f"{line.gain.variant} against {line.against}: {line.metric.id} {line.cell}"
    measured = line.why
    if line.row is not None and line.row.effect is not None and not line.why:
        scale = scale_of(line.metric, line.row.summary.mean)
        measured = change(line.row.effect, line.metric, scale)
    return f"{name}: {measured}; at least {expected_text(line)} is expected"


def expected_text(line: GainLine) -> str:
    """What is expected, signed as the change is shown."""
    sign = "+" if line.metric.direction == "higher" else "-"
    if line.metric.effect == "ratio":
        return f"{minus(sign)}{100 * line.gain.at_least:g} %"
    unit = "pt" if line.metric.unit == "%" else line.metric.unit
    return f"{minus(sign)}{line.gain.at_least:g} {unit}".rstrip()


def gain_records(report: Report) -> list[dict[str, Any]]:
    """As plain values."""
    return [
        {
            "variant": line.gain.variant,
            "against": line.against,
            "workload": line.cell.workload,
            "bucket": line.cell.bucket,
            "metric": line.metric.id,
            "at_least": line.gain.at_least,
            "effect": line.metric.effect,
            "estimate": None if _effect(line) is None else _effect(line).estimate,
            "estimate_ci95": _interval(line),
            "state": line.state,
            "text": gain_text(line),
        }
        for line in report.gains
    ]


def _effect(line: GainLine) -> Any:
    return None if line.row is None else line.row.effect


def _interval(line: GainLine) -> list[float] | None:
    effect = _effect(line)
    return None if effect is None or effect.ci95 is None else list(effect.ci95)
