"""Which of an artifact's programs a run needs: a build that makes no others is much cheaper."""

from __future__ import annotations

from perfrunner.build.layout import ENGINE_PROGRAM
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec

LOAD_TOOLS = ("append", "kvctl", "pillowfight", "witness")
CONDUCTOR = "conductor"


def measured_programs(spec: Spec) -> tuple[str, ...]:
    """The engine, and those that workloads run by themselves."""
    found = set()
    for workload in spec.workloads.values():
        if isinstance(workload, MicrobenchSpec):
            found.add(workload.program)
        elif isinstance(workload, LatencySpec):
            found.add("front_end_latency")
        else:
            found.add(ENGINE_PROGRAM)
    return tuple(sorted(found))


def arm_programs(spec: Spec) -> tuple[str, ...]:
    """Of an arm whose tools come from another build. The engine always: it is asked for its settings."""
    return tuple(sorted({ENGINE_PROGRAM, *measured_programs(spec)}))


def tool_programs(spec: Spec) -> tuple[str, ...]:
    """Of the build that the tools come from, where it is no arm's."""
    alone = any(isinstance(w, LatencySpec | MicrobenchSpec) for w in spec.workloads.values())
    return tuple(sorted({*LOAD_TOOLS, *([CONDUCTOR] if alone else [])}))
