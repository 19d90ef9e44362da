"""Whether a trial lasted long enough for a verdict: rates rest on seconds of load, tails on single operations.

Both are judged by the median trial of a cell, over both arms: fixed work takes the faster arm less time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from perfrunner.measure.window import LOAD_FACT, OPS_FACT, PARTS_FACT

if TYPE_CHECKING:
    from perfrunner.analysis.cells import CellBlocks

LEAST_LOAD_S = 1.0  # of load on an arm in a trial
LEAST_BEYOND = 10  # operations slower than a percentile, before it is one and not a few of them
RATES = ("ops_per_s", "ops_per_s_total", "ops_per_s_p90")
_PART = re.compile(r"ops_per_s_(before|during|after)")  # of a step
_PERCENTILE = re.compile(r"latency_(get|set)_p(\d+(?:_\d+)?)_us")


def too_little(blocks: CellBlocks, metric: str, arms: Iterable[str], *, short_wanted: bool) -> str:
    """Why there can be no verdict; empty where there can, or where the trials do not say.

    `short_wanted`: the spec asks for short trials in so many words (`schedule: side-by-side` of the workload).
    """
    part = _PART.fullmatch(metric)
    if part or (metric in RATES and not short_wanted):
        seconds = _median(blocks, arms, *((PARTS_FACT, part[1]) if part else (LOAD_FACT,)))
        if seconds is not None and seconds < LEAST_LOAD_S:
            return f"{seconds:.2g} s of load a trial: numbers only, a verdict on a rate needs {LEAST_LOAD_S:g} s"
    if found := _PERCENTILE.fullmatch(metric):
        operation, percent = found[1], float(found[2].replace("_", "."))
        ops = _median(blocks, arms, OPS_FACT, operation)
        beyond = None if ops is None else ops * (1 - percent / 100)
        if beyond is not None and beyond < LEAST_BEYOND:
            return (
                f"{beyond:.2g} operations of a trial are slower than its p{percent:g}: numbers only,"
                f" a verdict needs {LEAST_BEYOND}"
            )
    return ""


def short_load(blocks: CellBlocks, metric: str, arms: Iterable[str]) -> str:
    """What is to be said of a rate that rests on little load because the spec wants it so; empty otherwise."""
    seconds = _median(blocks, arms, LOAD_FACT) if metric in RATES else None
    if seconds is None or seconds >= LEAST_LOAD_S:
        return ""
    return f"{seconds:.2g} s of load a trial, as the spec asks"


def _median(
    blocks: CellBlocks, arms: Iterable[str], fact: str, key: str | None = None
) -> float | None:
    values = [trial.facts.get(fact) for arm in arms for trial in blocks.of(arm)]
    if key is not None:
        values = [value.get(key) if isinstance(value, dict) else None for value in values]
    told = [float(value) for value in values if isinstance(value, (int, float))]
    return median(told) if told else None
