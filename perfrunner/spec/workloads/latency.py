"""`type: latency`: front-end latency inside the process, with or without a background DCP client."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from perfrunner.spec.units import Count, PositiveCount
from perfrunner.spec.workloads.base import ValueSize
from perfrunner.spec.workloads.tool import ToolWorkload

NAMES = "Latency/"  # how its metrics' names begin


class LatencySpec(ToolWorkload):
    """Add, Get, Replace and Delete of every item, each timed alone.

    Metrics: `Latency/<Phase>/p50_us`, `p95_us`, `p99_us`, `sd_us`.
    """

    type: Literal["latency"]
    items: PositiveCount = 100_000
    value_size: ValueSize = 100
    dcp: Literal["none", "busy", "notify"] = Field(
        default="none",
        description="background DCP client: none, one that busy-waits, one that is woken",
    )
    bucket: Literal["persistent", "ephemeral"] = "persistent"
    ht_size: PositiveCount | None = Field(
        default=None, description="buckets of the hash table; none: as the resizer gives the items"
    )
    snapshot_interval_us: Count | None = Field(
        default=None,
        description="shortest time between two snapshots of a stream; none: the engine's",
    )

    def may_give(self, metric: str) -> bool:
        return metric.startswith(NAMES)

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return 1.0 + self.items / 50_000
