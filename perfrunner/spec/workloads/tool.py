"""What every workload declares that runs a program of the artifact by itself, without an engine server."""

from __future__ import annotations

from perfrunner.spec.base import Piece


class ToolWorkload(Piece):
    """One process is one trial: its repetitions describe the trial, they are no replicates."""

    @property
    def per_bucket(self) -> bool:
        """Whether the workload runs once for each bucket type of the spec."""
        return False
