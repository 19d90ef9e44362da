"""Define the workload types of a spec: one module for each type, selected by `type`.

To add a type, write a module with a Piece that has a literal `type`, and add it to AnyOf.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

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

AnyOf: TypeAlias = PillowfightSpec | AppendSpec | MicrobenchSpec | LatencySpec | SdkSpec | StepSpec
Workload: TypeAlias = Annotated[AnyOf, Field(discriminator="type")]
WORKLOAD_TYPES: dict[str, type[Piece]] = {
    get_args(spec.model_fields["type"].annotation)[0]: spec for spec in get_args(AnyOf)
}

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
