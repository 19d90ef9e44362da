"""`type: append`: the historic fragmentation pattern, read-modify-writes that let documents grow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfrunner.spec.quantities import PositiveCount
from perfrunner.spec.workloads.base import CountRange, ServerWorkload

# One round updates 0.75 of N, N/2 and N/4 items.
UPDATES_PER_ITEM_AND_ROUND = 0.75 * (1 + 0.5 + 0.25)


class AppendSpec(ServerWorkload):
    """Documents of 11-22 fields of about 60 B that grow by one field an update."""

    type: Literal["append"]
    rounds: Annotated[int, Field(ge=1, le=1000)] = 5
    in_flight: PositiveCount = Field(default=100, description="requests under way, for each thread")
    slice_ops: PositiveCount = Field(
        default=500,
        description="side by side: updates of an arm before the next one's turn, some milliseconds",
    )
    fields: CountRange = Field(
        default=(11, 22), description="fields of a new document: [smallest, largest]"
    )

    @property
    def updates(self) -> float:
        """Read-modify-writes of one trial, about."""
        return UPDATES_PER_ITEM_AND_ROUND * self.rounds * self.items

    @property
    def item_bytes(self) -> int:
        """A document at the end: its first fields and those that were appended, of 60 B each."""
        return 128 + 60 * (self.fields[1] + round(self.updates / self.items))

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return 2.0 + self.items / 150_000 + self.updates / 100_000 + self.settle
