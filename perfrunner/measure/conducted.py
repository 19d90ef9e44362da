"""What a conductor reported: for every benchmark the slices of each arm's program, round by round.

Schema version 1 (engine_src/slices/README.md). Entry i of every list belongs to round i; rounds are whole. The figure
of a benchmark is robust over rounds and paired within them (measure/rounds.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA
from perfrunner.measure.microbench import MicrobenchReport, MicrobenchRow, plain_name
from perfrunner.measure.rounds import levels

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ToolSlices:
    """One arm's turns at one benchmark: iterations, the time they took, and what else was counted in each slice."""

    iterations: Numbers
    real_ns: Numbers
    cpu_ns: Numbers | None  # None: timed by hand
    counters: Mapping[str, Numbers]


@dataclass(frozen=True)
class ConductedBenchmark:
    """`name` as in metrics; `arms` in the order of the plan."""

    name: str
    rounds: int
    arms: tuple[ToolSlices, ...]

    def times(self, baseline: int) -> list[float]:
        """Nanoseconds an iteration, one level an arm."""
        return _levels([arm.real_ns / arm.iterations for arm in self.arms], baseline)

    def cpu_times(self, baseline: int) -> list[float] | None:
        """CPU nanoseconds an iteration, over all slices where one is below the clock's grain; None where untold."""
        told = [(arm.cpu_ns, arm.iterations) for arm in self.arms if arm.cpu_ns is not None]
        if len(told) < len(self.arms):
            return None
        if any(not (cpu > 0).all() for cpu, _ in told):
            return [float(cpu.sum() / iterations.sum()) for cpu, iterations in told]
        return _levels([cpu / iterations for cpu, iterations in told], baseline)

    def counter(self, name: str, baseline: int) -> list[float] | None:
        """A counter of every arm: paired like a time, or its mean where it may be zero or negative."""
        found = [arm.counters[name] for arm in self.arms if name in arm.counters]
        if len(found) < len(self.arms):
            return None
        if any(not (column > 0).all() for column in found):
            return [float(column.mean()) for column in found]
        return _levels(found, baseline)

    def totals(self) -> list[float]:
        """Nanoseconds an iteration over all slices, slow ones too."""
        return [float(arm.real_ns.sum() / arm.iterations.sum()) for arm in self.arms]


@dataclass(frozen=True)
class ConductedArm:
    """What one program said. `report` is its own at the end, None where it has none; `text` all of its part."""

    context: Mapping[str, str]
    report: Mapping[str, Any] | None
    stderr: str
    text: str


@dataclass(frozen=True)
class Conducted:
    """The whole document."""

    arms: tuple[ConductedArm, ...]
    benchmarks: tuple[ConductedBenchmark, ...]

    def reports(self, baseline: int) -> list[MicrobenchReport]:
        """For each arm the report that its program alone would have given, in levels."""
        rows: list[dict[str, MicrobenchRow]] = [{} for _ in self.arms]
        for benchmark in self.benchmarks:
            names = {name for arm in benchmark.arms for name in arm.counters}
            counters = {name: benchmark.counter(name, baseline) for name in sorted(names)}
            cpu = benchmark.cpu_times(baseline)
            for place, real in enumerate(benchmark.times(baseline)):
                rows[place][benchmark.name] = MicrobenchRow(
                    name=benchmark.name,
                    real_ns=real,
                    cpu_ns=None if cpu is None else cpu[place],
                    counters={k: v[place] for k, v in counters.items() if v is not None},
                )
        return [
            MicrobenchReport(arm.context, mine) for arm, mine in zip(self.arms, rows, strict=True)
        ]

    @property
    def rounds(self) -> int:
        """Of the benchmark that has fewest."""
        return min((benchmark.rounds for benchmark in self.benchmarks), default=0)


def parse_conducted(text: str, where: str) -> Conducted:
    """Raises TrialError naming `where` and what is wrong."""
    try:
        document = json.loads(text)
        if document.get("tool") != "conductor" or document.get("schema") != SCHEMA:
            raise TrialError(f"{where}: no conductor's report of schema {SCHEMA}")
        if document.get("failure"):
            raise TrialError(f"{where}: {document['failure']}")
        benchmarks = tuple(_benchmark(entry, where) for entry in document["benchmarks"])
        arms = tuple(
            ConductedArm(
                context={str(k): str(v) for k, v in arm["context"].items()},
                report=arm.get("report"),
                stderr=str(arm.get("stderr", "")),
                text=_part(document, place),
            )
            for place, arm in enumerate(document["arms"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{where}: no conductor's report: {error!r}") from None
    if not benchmarks:
        raise TrialError(f"{where} holds no benchmark", hint="does the filter match one?")
    return Conducted(arms, benchmarks)


def _benchmark(entry: Mapping[str, Any], where: str) -> ConductedBenchmark:
    name, rounds = plain_name(str(entry["name"])), int(entry["rounds"])
    arms = tuple(_slices(arm) for arm in entry["arms"])
    columns = [
        column
        for arm in arms
        for column in (arm.iterations, arm.real_ns, arm.cpu_ns, *arm.counters.values())
        if column is not None
    ]
    if not rounds or any(column.shape != (rounds,) for column in columns):
        raise TrialError(f"{where}: {name} has {rounds} rounds, but lists of other lengths")
    return ConductedBenchmark(name, rounds, arms)


def _slices(arm: Mapping[str, Any]) -> ToolSlices:
    return ToolSlices(
        iterations=_numbers(arm["iterations"]),
        real_ns=_numbers(arm["real_ns"]),
        cpu_ns=None if arm.get("cpu_ns") is None else _numbers(arm["cpu_ns"]),
        counters={str(name): _numbers(values) for name, values in arm["counters"].items()},
    )


def _numbers(values: Any) -> Numbers:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"{found[~np.isfinite(found)][0]} among the slices")
    return found


def _levels(columns: list[Numbers], baseline: int) -> list[float]:
    found = [float(level) for level in levels(np.column_stack(columns), baseline)]
    if not all(math.isfinite(level) for level in found):
        raise TrialError("a benchmark's slices have no level")
    return found


def _part(document: Mapping[str, Any], place: int) -> str:
    """One arm's part of the document, as its trial keeps it."""
    part = {
        **document["arms"][place],
        "benchmarks": [
            {**{k: v for k, v in entry.items() if k != "arms"}, **entry["arms"][place]}
            for entry in document["benchmarks"]
        ],
    }
    return json.dumps(part, separators=(",", ":"))
