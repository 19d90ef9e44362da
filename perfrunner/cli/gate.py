"""`--fail-on`: decide from a report whether the command ends with 1.

`worse` and `unsure` look at primary metrics only, and `worse` at the total CPU where it disagrees
with a primary throughput.

worse   fails if a row is *worse* and its interval reaches beyond the margin: the loss is certain and
        not shown to be too small to matter. It also fails if no row has a verdict.
unsure  also fails for each row that is *unsure*, *not comparable* or without a verdict, and for each
        case, variant and primary metric that was not measured, such as those of a variant that always
        crashed. A pass means that no loss is left possible.
lost    fails if a gain of the spec's `expected_gains` is certainly smaller than expected or was not
        measured, or if the spec lists no gains.

Each row that passes without a verdict is reported on stderr.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.cli.output import note
from perfrunner.domain import MARGIN_ROUNDING
from perfrunner.errors import EXIT_VERDICT

if TYPE_CHECKING:
    import click

FAIL_ON = ("worse", "unsure", "lost")
SURE = ("better", "worse", "same")


@dataclass(frozen=True)
class Judgement:
    """The outcome of `--fail-on`: a line for each reason to fail and for each pass without a verdict."""

    failing: tuple[str, ...] = ()
    passed_unknown: tuple[str, ...] = ()


def gate(ctx: click.Context, document: Mapping[str, Any], fail_on: str | None) -> None:
    """Apply `--fail-on` to a report's JSON: print the reasons, and exit with 1 if it fails."""
    judgement = judge(document, fail_on)
    for line in judgement.passed_unknown:
        note(f"--fail-on {fail_on}: passed without a verdict: {line}")
    for line in judgement.failing:
        note(f"--fail-on {fail_on}: {line}")
    if judgement.failing:
        ctx.exit(EXIT_VERDICT)


def judge(document: Mapping[str, Any], fail_on: str | None) -> Judgement:
    """Judge the document of `report --format json`."""
    if fail_on is None:
        return Judgement()
    if fail_on == "lost":
        return _judge_expected_gains(document.get("expected_gains") or ())
    rows = [
        row
        for row in document["results"]
        if row["primary"] and row["variant"] != row["baseline"] and row["direction"] != "none"
    ]
    hidden = [row for row in document["results"] if row.get("companion")]
    disagreeing = {_place(row) for row in rows if row.get("cpu")}  # of throughput and total CPU
    judged = [*rows, *(row for row in hidden if _place(row) in disagreeing)]
    failing = [_line(row) for row in judged if row["verdict"] == "worse" and beyond_margin(row)]
    unknown = [_line(row) for row in rows if row["verdict"] not in SURE]
    unknown += [f"{missing} was not measured" for missing in _not_measured(document)]
    if fail_on == "unsure":
        failing += unknown
        unknown = []
    if not any(row["verdict"] in (*SURE, "unsure") for row in rows):
        failing.append("no primary metric has a verdict, so there is nothing to judge")
    return Judgement(tuple(failing), tuple(unknown))


def _case(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["workload"], row["bucket"]


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (*_case(row), row["variant"])


def _not_measured(document: Mapping[str, Any]) -> list[str]:
    """Return what has no row: primary metrics, cases, and primary metrics of a variant in a measured case."""
    results = document["results"]
    spec = document.get("spec") or {}
    discarded = (document.get("facts") or {}).get("discarded") or ()
    measured = {row["metric"] for row in results}
    missing = [metric for metric in spec.get("primary") or () if metric not in measured]
    cases = {_case(row) for row in results}
    missing += dict.fromkeys(
        " ".join(_case(trial)) for trial in discarded if _case(trial) not in cases
    )
    having = {(*_place(row), row["metric"]) for row in results}
    primary = [row for row in results if row["primary"] and row["direction"] != "none"]
    baselines = {row["baseline"] for row in results}
    variants = [*(spec.get("variants") or ()), *(row["variant"] for row in [*results, *discarded])]
    return missing + [
        f"{variant} {' '.join(case)} {metric}"
        for case, metric in dict.fromkeys((_case(row), row["metric"]) for row in primary)
        for variant in dict.fromkeys(variants)
        if variant not in baselines and (*case, variant, metric) not in having
    ]


def _judge_expected_gains(expected_gains: Sequence[Mapping[str, Any]]) -> Judgement:
    if not expected_gains:
        return Judgement(("the spec has no expected_gains, so there is nothing to judge",))
    lines = {
        state: tuple(
            f"{expected_gain['text']}: {state}"
            for expected_gain in expected_gains
            if expected_gain["state"] == state
        )
        for state in ("lost", "unjudged", "unsure")
    }
    return Judgement(lines["lost"] + lines["unjudged"], lines["unsure"])


def beyond_margin(row: Mapping[str, Any]) -> bool:
    """Return whether the interval reaches beyond the margin, by more than a rounding error."""
    interval, margin = row["estimate_ci95"], row["margin"]
    if interval is None or margin is None:
        return False
    if row["effect"] != "difference":
        interval, margin = [math.log(end) for end in interval], math.log1p(margin)
    return bool(max(map(abs, interval)) > margin * (1 + MARGIN_ROUNDING))


def _line(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"] or "without a verdict"
    why = f" ({row['reason']})" if row.get("reason") else ""
    return f"{row['variant']} {row['workload']} {row['bucket']} {row['metric']} is {verdict}{why}"
