"""Define the workload types of a spec: one module for each type, selected by `type`.

To add a type, write a module with a Piece that has a literal `type`, and add it to WORKLOAD_TYPES and
Workload.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from perfrunner.spec.base import Piece
from perfrunner.spec.workloads.append import AppendSpec
from perfrunner.spec.workloads.base import (
    AnyWorkload,
    Schedule,
    ServerWorkload,
    ToolWorkload,
    measured_settings,
)
from perfrunner.spec.workloads.latency import LatencySpec
from perfrunner.spec.workloads.microbench import MicrobenchSpec
from perfrunner.spec.workloads.pillowfight import PillowfightSpec
from perfrunner.spec.workloads.sdk import SdkSpec
from perfrunner.spec.workloads.step import StepSpec

WORKLOAD_TYPES: dict[str, type[Piece]] = {
    "pillowfight": PillowfightSpec,
    "append": AppendSpec,
    "microbench": MicrobenchSpec,
    "latency": LatencySpec,
    "sdk": SdkSpec,
    "step": StepSpec,
}

Workload: TypeAlias = Annotated[
    PillowfightSpec | AppendSpec | MicrobenchSpec | LatencySpec | SdkSpec | StepSpec,
    Field(discriminator="type"),
]

__all__ = [
    "WORKLOAD_TYPES",
    "AnyWorkload",
    "AppendSpec",
    "LatencySpec",
    "MicrobenchSpec",
    "PillowfightSpec",
    "Schedule",
    "SdkSpec",
    "ServerWorkload",
    "StepSpec",
    "ToolWorkload",
    "Workload",
    "measured_settings",
]
