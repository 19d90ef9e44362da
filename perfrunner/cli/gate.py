"""`--fail-on`: which rows of a report end the command with 1. `worse` and `unsure` look at primary metrics only.

worse   a row is *worse*, and its interval reaches beyond the margin: a loss that is certain, and not shown to be too
        small to matter. Or no row has a verdict at all: a gate that has nothing to judge does not let pass.
unsure  that, every row that is *unsure*, *invalid* or without a verdict, and every primary metric that was not
        measured: passed means shown to be no loss.
lost    a gain that the spec knows of (`gains:`) is certain to be smaller than expected, or was not measured. Or the
        spec knows of none.

Whatever a gate lets pass without a verdict it says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.cli.output import note
from perfrunner.errors import EXIT_VERDICT

if TYPE_CHECKING:
    import click

FAIL_ON = ("worse", "unsure", "lost")
SURE = ("better", "worse", "same")


@dataclass(frozen=True)
class Judgement:
    """A line for each reason to fail, and for each row that passed although nothing is known of it."""

    failing: tuple[str, ...] = ()
    passed_unknown: tuple[str, ...] = ()


def gate(ctx: click.Context, document: Mapping[str, Any], fail_on: str | None) -> None:
    """Say what `--fail-on` finds in a report's JSON, and leave with 1 where it fails."""
    judgement = judge(document, fail_on)
    for line in judgement.passed_unknown:
        note(f"--fail-on {fail_on} lets pass what it does not know: {line}")
    for line in judgement.failing:
        note(f"--fail-on {fail_on}: {line}")
    if judgement.failing:
        ctx.exit(EXIT_VERDICT)


def judge(document: Mapping[str, Any], fail_on: str | None) -> Judgement:
    """Of a `report --format json`."""
    if fail_on is None:
        return Judgement()
    if fail_on == "lost":
        return _judge_gains(document.get("gains") or ())
    rows = [
        row
        for row in document["results"]
        if row["primary"] and row["variant"] != row["baseline"] and row["direction"] != "none"
    ]
    failing = [_line(row) for row in rows if row["verdict"] == "worse" and beyond_margin(row)]
    unknown = [_line(row) for row in rows if row["verdict"] not in SURE]
    unknown += [f"{metric} was not measured" for metric in _not_measured(document)]
    if fail_on == "unsure":
        failing += unknown
        unknown = []
    if not any(row["verdict"] in (*SURE, "unsure") for row in rows):
        failing.append("no primary metric has a verdict: there is nothing to judge by")
    return Judgement(tuple(failing), tuple(unknown))


def _not_measured(document: Mapping[str, Any]) -> list[str]:
    """Primary metrics that no arm beside the baseline has: they have no row that could say so."""
    measured = {row["metric"] for row in document["results"] if row["variant"] != row["baseline"]}
    primary = (document.get("spec") or {}).get("primary") or ()
    return [metric for metric in primary if metric not in measured]


def _judge_gains(gains: Sequence[Mapping[str, Any]]) -> Judgement:
    if not gains:
        return Judgement(("the spec knows of no gains: there is nothing to judge by",))
    lines = {
        state: tuple(f"{gain['text']}: {state}" for gain in gains if gain["state"] == state)
        for state in ("lost", "unjudged", "unsure")
    }
    return Judgement(lines["lost"] + lines["unjudged"], lines["unsure"])


def beyond_margin(row: Mapping[str, Any]) -> bool:
    """Whether the interval reaches beyond the margin, on the side of the estimate."""
    interval, margin = row["estimate_ci95"], row["margin"]
    if interval is None or margin is None:
        return False
    if row["effect"] == "difference":
        return bool(max(map(abs, interval)) > margin)
    return bool(max(abs(math.log(end)) for end in interval) > math.log1p(margin))


def _line(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"] or "without a verdict"
    why = f" ({row['reason']})" if row.get("reason") else ""
    return f"{row['variant']} {row['workload']} {row['bucket']} {row['metric']} is {verdict}{why}"
