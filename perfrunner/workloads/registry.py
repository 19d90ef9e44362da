"""Map each type of workload to the scenario that runs it.

The scenario of a server workload is a function of (Group, spec), that of a stand-alone program a function of
(ToolGroup, spec). A type in neither table is rejected before the first build.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from perfrunner.errors import UsageError
from perfrunner.workloads import append, latency, microbench, pillowfight, sdk, step
from perfrunner.workloads.bench import Group, Measured, ToolGroup

Scenario: TypeAlias = Callable[[Group, Any], list[Measured]]
ToolScenario: TypeAlias = Callable[[ToolGroup, Any], list[Measured]]

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
    """Raise UsageError, with the known types, for a type without a scenario."""
    known = {**SERVER_SCENARIOS, **TOOL_SCENARIOS}
    if workload_type not in known:
        raise UsageError(
            f"unknown workload type {workload_type}",
            hint=f"known types: {', '.join(sorted(known))}",
        )


def scenario_for(workload_type: str) -> Scenario:
    """Return the scenario of a type that needs a running engine."""
    check_runnable(workload_type)
    return SERVER_SCENARIOS[workload_type]


def tool_scenario_for(workload_type: str) -> ToolScenario:
    """Return the scenario of a stand-alone type, which needs no engine."""
    check_runnable(workload_type)
    return TOOL_SCENARIOS[workload_type]
