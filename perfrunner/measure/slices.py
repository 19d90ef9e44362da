"""A conductor's document: the slices of every arm of a micro-benchmark, and one report an arm from them.

The engine's slices/README.md describes the document. Entry i of every array belongs to round i, in all arms, so that
arms are compared within their rounds (perfrunner.measure.rounds).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.microbench import MicrobenchReport, MicrobenchRow
from perfrunner.measure.rounds import DEFAULT_TRIM, levels

SCHEMA = 1
_STDERR_SHOWN = 600  # characters, in a message

Column = NDArray[np.float64]


@dataclass(frozen=True)
class ArmSlices:
    """Of one benchmark and arm; every array has an entry a round. Times are of the whole slice, in ns."""

    iterations: Column
    real_ns: Column
    cpu_ns: Column | None  # None: timed by hand
    wall_ns: Column  # the whole run, what is not timed included
    setup_ns: Column  # of it, making the state of a pass
    position: Column  # in the round, from 0
    counters: Mapping[str, Column]


@dataclass(frozen=True)
class SlicedBenchmark:
    """One benchmark's rounds; the arms in the document's order."""

    name: str
    warm_up: int  # rounds that were dropped before
    arms: tuple[ArmSlices, ...]

    @property
    def rounds(self) -> int:
        return len(self.arms[0].iterations)


@dataclass(frozen=True)
class Arm:
    """One program: what it was built with, and what it said about itself."""

    name: str
    pid: int
    cpus: tuple[int, ...]
    context: Mapping[str, str]
    report: Mapping[str, Any] | None  # of all its slices; front_end_latency's
    stderr: str


@dataclass(frozen=True)
class Totals:
    """All slices of an arm, rare slow ones included: ns an iteration."""

    real_ns: float
    cpu_ns: float | None


@dataclass(frozen=True)
class SlicesReport:
    """A conductor's whole document."""

    arms: tuple[Arm, ...]
    benchmarks: tuple[SlicedBenchmark, ...]

    def index(self, arm: str) -> int:
        """Its place in `arms`, and in every benchmark's; KeyError when there is no such arm."""
        return self._indices[arm]

    def reports(self, baseline: str, trim: float = DEFAULT_TRIM) -> dict[str, MicrobenchReport]:
        """One report an arm, as if its program had run alone: the figures are levels over rounds.

        What is not above zero in every slice has no ratio: a time shorter than the clock can see is that of all
        slices / iterations of all slices, a counter its mean over the slices.
        """
        column = self.index(baseline)
        rows = [_rows(benchmark, column, trim) for benchmark in self.benchmarks]
        return {
            arm.name: MicrobenchReport(arm.context, {own[i].name: own[i] for own in rows})
            for i, arm in enumerate(self.arms)
        }

    def totals(self, arm: str) -> dict[str, Totals]:
        """By benchmark: time of all slices / iterations of all slices."""
        place = self.index(arm)
        return {benchmark.name: _totals(benchmark.arms[place]) for benchmark in self.benchmarks}

    @cached_property
    def _indices(self) -> Mapping[str, int]:
        return {arm.name: index for index, arm in enumerate(self.arms)}


def parse_slices(text: str, source: str) -> SlicesReport:
    """The document, or TrialError that says what is wrong with it, or which arm failed and how."""
    try:
        document = json.loads(text)
        if document["tool"] != "conductor" or document["schema"] != SCHEMA:
            raise ValueError(f"tool {document['tool']}, schema {document['schema']}")
        arms = tuple(_arm(entry) for entry in document["arms"])
        if document["failure"] is not None:
            raise TrialError(_failure(document, arms))
        benchmarks = tuple(_benchmark(entry, len(arms)) for entry in document["benchmarks"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{source} is no document of a conductor: {error!r}") from None
    if not benchmarks:
        raise TrialError(f"{source} holds no benchmark", hint="does the filter match one?")
    return SlicesReport(arms, benchmarks)


def _failure(document: Mapping[str, Any], arms: Sequence[Arm]) -> str:
    failed = document["failed_arm"]
    if failed is None:
        return f"the conductor gave up: {document['failure']}"
    said = " | ".join(
        line.strip() for arm in arms if arm.name == failed for line in arm.stderr.splitlines()
    )
    return f"{failed}: {document['failure']}: {said[-_STDERR_SHOWN:] or 'silent'}"


def _arm(entry: Mapping[str, Any]) -> Arm:
    context = entry["context"] or {}  # null: it failed before it said so
    return Arm(
        name=str(entry["name"]),
        pid=int(entry["pid"]),
        cpus=tuple(int(cpu) for cpu in entry["cpus"]),
        context={str(key): str(value) for key, value in context.items()},
        report=entry["report"],
        stderr=str(entry["stderr"]),
    )


def _benchmark(entry: Mapping[str, Any], arms: int) -> SlicedBenchmark:
    name, rounds = str(entry["name"]), int(entry["rounds"])
    if len(entry["arms"]) != arms or rounds < 1:
        raise ValueError(f"{name}: {len(entry['arms'])} of {arms} arms, {rounds} rounds")

    def column(values: Sequence[float], what: str) -> Column:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (rounds,) or not np.isfinite(array).all():
            raise ValueError(f"{name}: {what} is no list of {rounds} numbers")
        return array

    def own(arm: Mapping[str, Any]) -> ArmSlices:
        cpu = arm["cpu_ns"]
        slices = ArmSlices(
            iterations=column(arm["iterations"], "iterations"),
            real_ns=column(arm["real_ns"], "real_ns"),
            cpu_ns=None if cpu is None else column(cpu, "cpu_ns"),
            wall_ns=column(arm["wall_ns"], "wall_ns"),
            setup_ns=column(arm["setup_ns"], "setup_ns"),
            position=column(arm["position"], "position"),
            counters={str(key): column(value, key) for key, value in arm["counters"].items()},
        )
        if not (slices.iterations > 0).all():
            raise ValueError(f"{name}: a slice of no iteration")
        return slices

    return SlicedBenchmark(
        name=name, warm_up=int(entry["warm_up"]), arms=tuple(own(arm) for arm in entry["arms"])
    )


def _rows(benchmark: SlicedBenchmark, baseline: int, trim: float) -> list[MicrobenchRow]:
    """One row an arm."""

    def figures(times: Sequence[Column]) -> list[float]:
        done = [arm.iterations for arm in benchmark.arms]
        table = np.column_stack([ns / n for ns, n in zip(times, done, strict=True)])
        if (table > 0).all():
            return [float(level) for level in levels(table, baseline, trim)]
        return [float(ns.sum() / n.sum()) for ns, n in zip(times, done, strict=True)]

    def counter(name: str) -> list[float]:
        table = np.column_stack([arm.counters[name] for arm in benchmark.arms])
        if (table > 0).all():
            return [float(level) for level in levels(table, baseline, trim)]
        return [float(mean) for mean in table.mean(axis=0)]

    real = figures([arm.real_ns for arm in benchmark.arms])
    by_arm = [arm.cpu_ns for arm in benchmark.arms if arm.cpu_ns is not None]
    timed = len(by_arm) == len(benchmark.arms)
    cpu: Sequence[float | None] = figures(by_arm) if timed else [None] * len(benchmark.arms)
    shared = set.intersection(*(set(arm.counters) for arm in benchmark.arms))
    counters = {name: counter(name) for name in sorted(shared)}
    return [
        MicrobenchRow(
            name=benchmark.name,
            real_ns=real[i],
            cpu_ns=cpu[i],
            counters={name: values[i] for name, values in counters.items()},
        )
        for i in range(len(benchmark.arms))
    ]


def _totals(arm: ArmSlices) -> Totals:
    done = arm.iterations.sum()
    return Totals(
        real_ns=float(arm.real_ns.sum() / done),
        cpu_ns=None if arm.cpu_ns is None else float(arm.cpu_ns.sum() / done),
    )
