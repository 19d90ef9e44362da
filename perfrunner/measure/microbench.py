"""The JSON report of a Google Benchmark program: what it was built with, and the figures of each benchmark.

Names lose what Google Benchmark appends to them for its own bookkeeping (`/iterations:N`, `/real_time`,
`/manual_time`, `/repeats:N`), and keep what tells two benchmarks apart (`/threads:2`). With repetitions the figure is
their median.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.errors import TrialError

_BOOKKEEPING = re.compile(r"/(?:iterations:\d+|repeats:\d+|real_time|process_time|manual_time)")
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# Keys of a row that are no user counters.
_STANDARD = frozenset(
    [
        "name",
        "family_index",
        "per_family_instance_index",
        "run_name",
        "run_type",
        "repetitions",
        "repetition_index",
        "threads",
        "iterations",
        "real_time",
        "cpu_time",
        "time_unit",
        "aggregate_name",
        "aggregate_unit",
        "error_occurred",
        "error_message",
        "label",
    ]
)
MIN_POINTS_FOR_GROWTH = 3


@dataclass(frozen=True)
class MicrobenchRow:
    """One benchmark: times in ns an iteration, and its user counters.

    A benchmark that is timed by hand has no CPU time: Google Benchmark counts that of the whole loop, set-up included.
    """

    name: str
    real_ns: float
    cpu_ns: float | None
    counters: Mapping[str, float]


@dataclass(frozen=True)
class MicrobenchReport:
    """A process's report."""

    context: Mapping[str, str]
    rows: Mapping[str, MicrobenchRow]

    def metrics(self, counters: Sequence[str], growth: Sequence[str]) -> dict[str, float]:
        """Every benchmark's times, the named counters of those that have them, the named families' growth."""
        found: dict[str, float] = {}
        for row in self.rows.values():
            found[row.name] = row.real_ns
            if row.cpu_ns is not None:
                found[f"{row.name}/cpu_time"] = row.cpu_ns
            for counter in counters:
                if counter in row.counters:
                    found[f"{row.name}/{counter}"] = row.counters[counter]
        for counter in counters:
            if not any(counter in row.counters for row in self.rows.values()):
                raise TrialError(f"no benchmark reported the counter {counter}")
        for family in growth:
            found[f"{family}/growth"] = self.growth(family)
        return found

    def growth(self, family: str) -> float:
        """Exponent b of time ~ N^b over the family's benchmarks NAME/N: the slope of log time over log N."""
        points = [
            (int(row.name.removeprefix(f"{family}/")), row.real_ns)
            for row in self.rows.values()
            if re.fullmatch(re.escape(family) + r"/\d+", row.name)
        ]
        if len(points) < MIN_POINTS_FOR_GROWTH:
            raise TrialError(
                f"the growth of {family} needs at least {MIN_POINTS_FOR_GROWTH} sizes, the report has {len(points)}"
            )
        import numpy as np

        sizes, times = np.log(np.array(points, dtype=np.float64)).T
        return float(np.polyfit(sizes, times, 1)[0])


def parse_microbench(text: str, source: str) -> MicrobenchReport:
    """The report, or TrialError that says what is wrong with it."""
    try:
        document = json.loads(text)
        context = {str(key): str(value) for key, value in document["context"].items()}
        rows = [_row(entry) for entry in document["benchmarks"] if _counts(entry)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{source} is no Google Benchmark report: {error}") from None
    if not rows:
        raise TrialError(f"{source} holds no benchmark", hint="does the filter match one?")
    return MicrobenchReport(context, {row.name: row for row in rows})


def _counts(entry: Mapping[str, Any]) -> bool:
    """One row a benchmark: the median where there are repetitions, else its only run."""
    if entry.get("error_occurred"):
        raise TrialError(f"{entry['name']} failed: {entry.get('error_message', 'no message')}")
    if entry["run_type"] == "aggregate":
        return bool(entry["aggregate_name"] == "median")
    return int(entry.get("repetitions", 1)) <= 1


def plain_name(run_name: str) -> str:
    """A benchmark's name without Google Benchmark's bookkeeping."""
    return _BOOKKEEPING.sub("", run_name)


def _row(entry: Mapping[str, Any]) -> MicrobenchRow:
    factor = _NS[entry["time_unit"]]
    by_hand = "/manual_time" in str(entry["run_name"])
    return MicrobenchRow(
        name=plain_name(str(entry["run_name"])),
        real_ns=float(entry["real_time"]) * factor,
        cpu_ns=None if by_hand else float(entry["cpu_time"]) * factor,
        counters={
            key: float(value)
            for key, value in entry.items()
            if key not in _STANDARD and isinstance(value, int | float)
        },
    )
