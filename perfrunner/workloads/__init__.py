"""The scenario of each type of workload: one module per type, with a function that runs its phases in order.

The scenario of a server workload is a function of (Group, spec), that of a stand-alone program a function of
(ToolGroup, spec). The keys are the types of perfrunner.spec.workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfrunner.workloads import append, latency, microbench, pillowfight, sdk, step
from perfrunner.workloads.bench import Group, Measured, ToolGroup

SERVER_SCENARIOS: dict[str, Callable[[Group, Any], list[Measured]]] = {
    "pillowfight": pillowfight.run,
    "append": append.run,
    "sdk": sdk.run,
    "step": step.run,
}
TOOL_SCENARIOS: dict[str, Callable[[ToolGroup, Any], list[Measured]]] = {
    "microbench": microbench.run,
    "latency": latency.run,
}
