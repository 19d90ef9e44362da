"""`--fail-on`: which rows of a report end the command with 1. Only primary metrics are looked at.

worse   a row is *worse*, and its interval reaches beyond the margin: a loss that is certain, and not shown to be too
        small to matter. Or no row has a verdict at all: a gate that has nothing to judge does not let pass.
unsure  that, and every row that is *unsure*, *invalid* or without a verdict: passed means shown to be no loss.

Whatever a gate lets pass without a verdict it says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FAIL_ON = ("worse", "unsure")
SURE = ("better", "worse", "same")


@dataclass(frozen=True)
class Judgement:
    """A line for each reason to fail, and for each row that passed although nothing is known of it."""

    failing: tuple[str, ...] = ()
    passed_unknown: tuple[str, ...] = ()


def judge(document: Mapping[str, Any], fail_on: str | None) -> Judgement:
    """Of a `report --format json`."""
    if fail_on is None:
        return Judgement()
    rows = [
        row
        for row in document["results"]
        if row["primary"] and row["variant"] != row["baseline"] and row["direction"] != "none"
    ]
    failing = [_line(row) for row in rows if row["verdict"] == "worse" and beyond_margin(row)]
    unknown = [_line(row) for row in rows if row["verdict"] not in SURE]
    if fail_on == "unsure":
        failing += unknown
        unknown = []
    if not any(row["verdict"] in (*SURE, "unsure") for row in rows):
        failing.append("no primary metric has a verdict: there is nothing to judge by")
    return Judgement(tuple(failing), tuple(unknown))


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
