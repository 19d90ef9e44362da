"""Which scenario carries out which type of workload.

A workload on a running server is a function of (Ensemble, its spec), one that needs no server a function of
(ToolEnsemble, its spec). A type in neither table cannot be run and says so before the first build.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from perfrunner.errors import UsageError
from perfrunner.workloads import append, latency, microbench, pillowfight, sdk, step
from perfrunner.workloads.bench import Ensemble, Measured, ToolEnsemble

Scenario: TypeAlias = Callable[[Ensemble, Any], list[Measured]]
ToolScenario: TypeAlias = Callable[[ToolEnsemble, Any], list[Measured]]

SERVER_SCENARIOS: dict[str, Scenario] = {
    "pillowfight": pillowfight.run,
    "append": append.run,
    "sdk": sdk.run,
    "step": step.run,
}
TOOL_SCENARIOS: dict[str, ToolScenario] = {
    "microbench": microbench.run,
    "latency": latency.run,
}


def check_runnable(workload_type: str) -> None:
    """UsageError, with the known types, for one that has no scenario."""
    known = {**SERVER_SCENARIOS, **TOOL_SCENARIOS}
    if workload_type not in known:
        raise UsageError(
            f"workloads of type {workload_type} cannot be run",
            hint=f"known types: {', '.join(sorted(known))}",
        )


def scenario_for(workload_type: str) -> Scenario:
    """Of a type that needs a running engine."""
    check_runnable(workload_type)
    return SERVER_SCENARIOS[workload_type]


def tool_scenario_for(workload_type: str) -> ToolScenario:
    """Of a type that needs none."""
    check_runnable(workload_type)
    return TOOL_SCENARIOS[workload_type]
