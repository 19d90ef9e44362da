"""`type: microbench`: one of the engine's Google Benchmark programs, one process a trial."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from perfrunner.spec.base import ListAsTuple, matching
from perfrunner.spec.metrics import COUNTERS
from perfrunner.spec.quantities import PositiveCount, PositiveDuration
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.workloads.latency import NAMES
from perfrunner.spec.workloads.tool import ToolWorkload

ProgramName = Annotated[
    str, matching(r"[a-z][a-z0-9_]*_bench", "a benchmark program's name, such as checkpoint_bench")
]
BenchmarkName = Annotated[
    str,
    matching(
        r"[A-Za-z][A-Za-z0-9]*(/[A-Za-z0-9_.:+-]+)*", "a benchmark's name, such as HTB/Insert"
    ),
]

# What Google Benchmark appends to the name that a metric has, and a filter may ask for.
_BEHIND_THE_NAME = re.compile(r"iterations|repeats|warmup|_time")


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


def _counter(name: str) -> str:
    """A counter whose unit nobody declared would be read as nanoseconds."""
    if name not in COUNTERS:
        raise ValueError(expected_name("a counter", name, COUNTERS))
    return name


class MicrobenchSpec(ToolWorkload):
    """Benchmarks of one program. Metrics: `<benchmark>` (ns an iteration), `<benchmark>/cpu_time`, and `counters`."""

    type: Literal["microbench"]
    program: ProgramName
    filter: Annotated[str, AfterValidator(_regular_expression)] = Field(
        default=".", description="regular expression that chooses benchmarks by name"
    )
    repetitions: PositiveCount = Field(
        default=1, description="inside the process; their median is the trial's figure"
    )
    min_time: PositiveDuration = Field(
        default=0.2,
        description="at least this long for each benchmark without a fixed number of iterations",
    )
    counters: Annotated[tuple[Annotated[str, AfterValidator(_counter)], ...], ListAsTuple] = Field(
        default=(), description="user counters that become metrics"
    )
    growth: Annotated[tuple[BenchmarkName, ...], ListAsTuple] = Field(
        default=(),
        description="families NAME/N: the exponent of their time over N becomes NAME/growth",
    )
    expected: PositiveDuration = Field(
        default=10.0, description="guess of a trial's length, for the plan"
    )

    def may_give(self, metric: str) -> bool:
        """As far as `filter` and `growth` tell: which benchmarks a program has, only the program knows."""
        if not super().may_give(metric) or metric.startswith(NAMES):
            return False
        *stem, last = metric.split("/")
        if last == "growth":
            return "/".join(stem) in self.growth
        if self.filter.startswith("-") or _BEHIND_THE_NAME.search(self.filter):
            return True
        # a metric is a benchmark's name, or that and what is measured of it
        starts = ("/".join([*stem, last][:n]) for n in range(1, len(stem) + 2))
        return any(re.search(self.filter, start) for start in starts)

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return self.expected
