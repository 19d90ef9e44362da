"""Parse the reports of benchmark programs: of one program, and of a conductor that interleaves several.

The programs use Google Benchmark. Suffixes that it appends for its own use (`/iterations:N`, `/real_time`,
`/manual_time`, `/repeats:N`) are removed from names; suffixes that distinguish benchmarks (`/threads:2`) stay. With
repetitions the value is their median.

A conductor reports for every benchmark the slices of each variant's program, round by round. Schema version 1
(engine_src/slices/README.md). Entry i of every list belongs to round i; rounds are complete. The value of a benchmark
is robust over rounds and paired within them (measure/slices.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA
from perfrunner.measure.slices import levels

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


Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ToolSlices:
    """The slices of one variant in one benchmark: iterations, duration and counters of each slice."""

    iterations: Numbers
    real_ns: Numbers
    cpu_ns: Numbers | None  # None for a manually timed benchmark
    counters: Mapping[str, Numbers]


@dataclass(frozen=True)
class ConductedBenchmark:
    """A benchmark. `name` is the one used in metrics; `variants` are in the order of the plan."""

    name: str
    rounds: int
    variants: tuple[ToolSlices, ...]

    def times(self, baseline: int) -> list[float]:
        """Return the level of each variant in nanoseconds per iteration."""
        return _levels(
            [variant.real_ns / variant.iterations for variant in self.variants], baseline
        )

    def cpu_times(self, baseline: int) -> list[float] | None:
        """Return CPU nanoseconds per iteration of each variant; None if a variant has none.

        If a slice is shorter than the clock's resolution, the result is the ratio of sums over all slices.
        """
        columns = [
            (variant.cpu_ns, variant.iterations)
            for variant in self.variants
            if variant.cpu_ns is not None
        ]
        if len(columns) < len(self.variants):
            return None
        if any(not (cpu > 0).all() for cpu, _ in columns):
            return [float(cpu.sum() / iterations.sum()) for cpu, iterations in columns]
        return _levels([cpu / iterations for cpu, iterations in columns], baseline)

    def counter(self, name: str, baseline: int) -> list[float] | None:
        """Return a counter of each variant: paired like a time, or its mean if values may be zero or negative."""
        columns = [variant.counters[name] for variant in self.variants if name in variant.counters]
        if len(columns) < len(self.variants):
            return None
        if any(not (column > 0).all() for column in columns):
            return [float(column.mean()) for column in columns]
        return _levels(columns, baseline)

    def totals(self) -> list[float]:
        """Return nanoseconds per iteration over all slices, including slow ones."""
        return [
            float(variant.real_ns.sum() / variant.iterations.sum()) for variant in self.variants
        ]


@dataclass(frozen=True)
class ConductedVariant:
    """The output of one program. `report` is its own final report, if any; `text` is its part of the document."""

    context: Mapping[str, str]
    report: Mapping[str, Any] | None
    stderr: str
    text: str


@dataclass(frozen=True)
class Conducted:
    """The report of a conductor."""

    variants: tuple[ConductedVariant, ...]
    benchmarks: tuple[ConductedBenchmark, ...]

    def reports(self, baseline: int) -> list[MicrobenchReport]:
        """Return for each variant the report that its program alone would have written, with levels as values."""
        rows: list[dict[str, MicrobenchRow]] = [{} for _ in self.variants]
        for benchmark in self.benchmarks:
            names = {name for variant in benchmark.variants for name in variant.counters}
            counters = {name: benchmark.counter(name, baseline) for name in sorted(names)}
            cpu = benchmark.cpu_times(baseline)
            for index, real in enumerate(benchmark.times(baseline)):
                rows[index][benchmark.name] = MicrobenchRow(
                    name=benchmark.name,
                    real_ns=real,
                    cpu_ns=None if cpu is None else cpu[index],
                    counters={k: v[index] for k, v in counters.items() if v is not None},
                )
        return [
            MicrobenchReport(variant.context, benchmark_rows)
            for variant, benchmark_rows in zip(self.variants, rows, strict=True)
        ]

    @property
    def rounds(self) -> int:
        """The number of rounds of the benchmark with the fewest rounds."""
        return min((benchmark.rounds for benchmark in self.benchmarks), default=0)


def parse_conducted(text: str, where: str) -> Conducted:
    """Parse a report. Raises TrialError, which names `where` and the problem."""
    try:
        document = json.loads(text)
        if document.get("tool") != "conductor" or document.get("schema") != SCHEMA:
            raise TrialError(f"{where}: not a conductor's report of schema {SCHEMA}")
        if document.get("failure"):
            raise TrialError(f"{where}: {document['failure']}")
        benchmarks = tuple(_benchmark(entry, where) for entry in document["benchmarks"])
        variants = tuple(
            ConductedVariant(
                context={str(k): str(v) for k, v in variant["context"].items()},
                report=variant.get("report"),
                stderr=str(variant.get("stderr", "")),
                text=_part(document, index),
            )
            for index, variant in enumerate(document["variants"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{where}: not a conductor's report: {error!r}") from None
    if not benchmarks:
        raise TrialError(
            f"{where} holds no benchmark", hint="check that the filter matches a benchmark"
        )
    return Conducted(variants, benchmarks)


def _benchmark(entry: Mapping[str, Any], where: str) -> ConductedBenchmark:
    name, rounds = plain_name(str(entry["name"])), int(entry["rounds"])
    variants = tuple(_slices(variant) for variant in entry["variants"])
    columns = [
        column
        for variant in variants
        for column in (
            variant.iterations,
            variant.real_ns,
            variant.cpu_ns,
            *variant.counters.values(),
        )
        if column is not None
    ]
    if not rounds or any(column.shape != (rounds,) for column in columns):
        raise TrialError(f"{where}: {name} has {rounds} rounds, but lists of other lengths")
    return ConductedBenchmark(name, rounds, variants)


def _slices(variant: Mapping[str, Any]) -> ToolSlices:
    return ToolSlices(
        iterations=_numbers(variant["iterations"]),
        real_ns=_numbers(variant["real_ns"]),
        cpu_ns=None if variant.get("cpu_ns") is None else _numbers(variant["cpu_ns"]),
        counters={str(name): _numbers(values) for name, values in variant["counters"].items()},
    )


def _numbers(values: Any) -> Numbers:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{array[~np.isfinite(array)][0]} among the slices")
    return array


def _levels(columns: list[Numbers], baseline: int) -> list[float]:
    values = [float(level) for level in levels(np.column_stack(columns), baseline)]
    if not all(math.isfinite(level) for level in values):
        raise TrialError("the slices of a benchmark give no rate")
    return values


def _part(document: Mapping[str, Any], place: int) -> str:
    """Return one variant's part of the document, for the trial's raw files."""
    part = {
        **document["variants"][place],
        "benchmarks": [
            {**{k: v for k, v in entry.items() if k != "variants"}, **entry["variants"][place]}
            for entry in document["benchmarks"]
        ],
    }
    return json.dumps(part, separators=(",", ":"))
