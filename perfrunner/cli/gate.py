"""`--fail-on`: which rows of a report end the command with 1.

A row counts when its metric is primary, its verdict is the named one, and its estimate lies beyond the margin: a
change that is certain but too small to matter does not stop a build.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

FAIL_ON = ("worse",)


def failing(document: Mapping[str, Any], verdict: str | None) -> list[str]:
    """One line for each row of `report --format json` that fails the gate."""
    if verdict is None:
        return []
    return [
        f"{row['variant']} {row['workload']} {row['bucket']} {row['metric']} is {verdict}"
        for row in document["results"]
        if row["primary"] and row["verdict"] == verdict and beyond_margin(row)
    ]


def beyond_margin(row: Mapping[str, Any]) -> bool:
    """Whether the estimate lies outside the margin."""
    estimate, margin = row["estimate"], row["margin"]
    if estimate is None or margin is None:
        return False
    if row["effect"] == "difference":
        return bool(abs(estimate) > margin)
    return bool(abs(math.log(estimate)) > math.log1p(margin))
