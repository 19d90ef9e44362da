"""Parse the JSON report of a Google Benchmark program: its build information and the values of each benchmark.

Suffixes that Google Benchmark appends for its own use (`/iterations:N`, `/real_time`, `/manual_time`,
`/repeats:N`) are removed from names; suffixes that distinguish benchmarks (`/threads:2`) stay. With
repetitions the value is their median.
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
# Keys of a row that are not user counters.
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
    """A benchmark: times in ns per iteration, and its user counters.

    A manually timed benchmark has no CPU time: Google Benchmark counts that of the whole loop, including
    set-up.
    """

    name: str
    real_ns: float
    cpu_ns: float | None
    counters: Mapping[str, float]


@dataclass(frozen=True)
class MicrobenchReport:
    """The report of a process."""

    context: Mapping[str, str]
    rows: Mapping[str, MicrobenchRow]

    def metrics(self, counters: Sequence[str], growth: Sequence[str]) -> dict[str, float]:
        """Return every benchmark's times, the selected counters, and the growth of the selected families."""
        values: dict[str, float] = {}
        for row in self.rows.values():
            values[row.name] = row.real_ns
            if row.cpu_ns is not None:
                values[f"{row.name}/cpu_time"] = row.cpu_ns
            for counter in counters:
                if counter in row.counters:
                    values[f"{row.name}/{counter}"] = row.counters[counter]
        for counter in counters:
            if not any(counter in row.counters for row in self.rows.values()):
                raise TrialError(f"no benchmark reported the counter {counter}")
        for family in growth:
            values[f"{family}/growth"] = self.growth(family)
        return values

    def growth(self, family: str) -> float:
        """Return the exponent b of time ~ N^b over the family's benchmarks NAME/N: the slope of log time over log N."""
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
    """Parse a report. Raises TrialError, which says what is wrong with it."""
    try:
        document = json.loads(text)
        context = {str(key): str(value) for key, value in document["context"].items()}
        rows = [_row(entry) for entry in document["benchmarks"] if _counts(entry)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{source} is not a Google Benchmark report: {error}") from None
    if not rows:
        raise TrialError(
            f"{source} holds no benchmark", hint="check that the filter matches a benchmark"
        )
    return MicrobenchReport(context, {row.name: row for row in rows})


def _counts(entry: Mapping[str, Any]) -> bool:
    """Tell whether a row is the benchmark's value: the median with repetitions, otherwise its only run."""
    if entry.get("error_occurred"):
        raise TrialError(f"{entry['name']} failed: {entry.get('error_message', 'no message')}")
    if entry["run_type"] == "aggregate":
        return bool(entry["aggregate_name"] == "median")
    return int(entry.get("repetitions", 1)) <= 1


def plain_name(run_name: str) -> str:
    """Return a benchmark's name without Google Benchmark's own suffixes."""
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
