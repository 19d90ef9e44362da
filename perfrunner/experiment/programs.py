"""Select the programs that a run needs: a build that makes only these is much cheaper."""

from __future__ import annotations

from perfrunner.build.layout import ENGINE_PROGRAM
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec

LOAD_TOOLS = ("append", "kvctl", "pillowfight", "consistency_checker")
CONDUCTOR = "conductor"


def measured_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs that the workloads measure: the engine, stand-alone programs, or both."""
    names = set()
    for workload in spec.workloads.values():
        if isinstance(workload, MicrobenchSpec):
            names.add(workload.program)
        elif isinstance(workload, LatencySpec):
            names.add("front_end_latency")
        else:
            names.add(ENGINE_PROGRAM)
    return tuple(sorted(names))


def variant_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a variant whose tools come from another build.

    The engine is always included, because the settings check starts it.
    """
    return tuple(sorted({ENGINE_PROGRAM, *measured_programs(spec)}))


def whole_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a variant whose build also provides the tools."""
    return tuple(sorted({*variant_programs(spec), *tool_programs(spec)}))


def tool_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a separate build that provides only the tools.

    Other servers than the engine are loaded and sampled without its own tools.
    """
    if all(variant.server is not None for variant in spec.variants.values()):
        return ("kvctl", "pillowfight")
    alone = any(isinstance(w, LatencySpec | MicrobenchSpec) for w in spec.workloads.values())
    return tuple(sorted({*LOAD_TOOLS, *([CONDUCTOR] if alone else [])}))
