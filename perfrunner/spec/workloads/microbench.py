"""Define `type: microbench`: one of the engine's Google Benchmark programs, one process per trial."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from perfrunner.spec.base import ListAsTuple, PositiveCount, PositiveDuration, matching
from perfrunner.spec.metrics import COUNTERS
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.workloads.base import ToolWorkload
from perfrunner.spec.workloads.latency import NAMES

ProgramName = Annotated[
    str, matching(r"[a-z][a-z0-9_]*_bench", "a benchmark program's name, such as checkpoint_bench")
]
BenchmarkName = Annotated[
    str,
    matching(
        r"[A-Za-z][A-Za-z0-9]*(/[A-Za-z0-9_.:+-]+)*", "a benchmark's name, such as HTB/Insert"
    ),
]

# Suffixes that Google Benchmark appends to names. A filter may match them, but metrics lack them.
_BEHIND_THE_NAME = re.compile(r"iterations|repeats|warmup|_time")


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


def _counter(name: str) -> str:
    """Refuse an undeclared counter: its unit would default to nanoseconds."""
    if name not in COUNTERS:
        raise ValueError(expected_name("a counter", name, COUNTERS))
    return name


class MicrobenchSpec(ToolWorkload):
    """The benchmarks of one program.

    Metrics: `<benchmark>` (ns per iteration), `<benchmark>/cpu_time`, and `counters`.
    """

    type: Literal["microbench"]
    program: ProgramName
    filter: Annotated[str, AfterValidator(_regular_expression)] = Field(
        default=".", description="regular expression that chooses benchmarks by name"
    )
    repetitions: PositiveCount = Field(
        default=1,
        description="repetitions inside the process; their median is the value of the trial",
    )
    min_time: PositiveDuration = Field(
        default=0.2,
        description="minimum duration of each benchmark without a fixed number of iterations",
    )
    counters: Annotated[tuple[Annotated[str, AfterValidator(_counter)], ...], ListAsTuple] = Field(
        default=(), description="user counters that become metrics"
    )
    growth: Annotated[tuple[BenchmarkName, ...], ListAsTuple] = Field(
        default=(),
        description="families NAME/N; the exponent of their time over N becomes the metric NAME/growth",
    )
    expected: PositiveDuration = Field(
        default=10.0, description="estimated duration of a trial, for the plan"
    )

    @property
    def measured_program(self) -> str:
        return self.program

    def may_give(self, metric: str) -> bool:
        """Judge by `filter` and `growth` only: the list of benchmarks is known to the program alone."""
        if not super().may_give(metric) or metric.startswith(NAMES):
            return False
        *stem, last = metric.split("/")
        if last == "growth":
            return "/".join(stem) in self.growth
        if self.filter.startswith("-") or _BEHIND_THE_NAME.search(self.filter):
            return True
        # A metric is a benchmark's name, optionally followed by a counter.
        starts = ("/".join([*stem, last][:n]) for n in range(1, len(stem) + 2))
        return any(re.search(self.filter, start) for start in starts)

    @property
    def expected_seconds(self) -> float:
        return self.expected
