"""What every workload declares that runs a program of the artifact by itself, without an engine server."""

from __future__ import annotations

from pydantic import Field

from perfrunner.spec.metrics import METRICS
from perfrunner.spec.quantities import PositiveDuration
from perfrunner.spec.workloads.base import AnyWorkload


class ToolWorkload(AnyWorkload):
    """One process is one trial: its repetitions describe the trial, they are no replicates."""

    slice: PositiveDuration = Field(
        default=0.02, description="side by side: how long a program runs before the next arm's turn"
    )

    def may_give(self, metric: str) -> bool:
        return metric not in METRICS

    @property
    def per_bucket(self) -> bool:
        """Whether the workload runs once for each bucket type of the spec."""
        return False
