"""Define `type: append`: the historic fragmentation pattern of read-modify-writes that grow documents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfrunner.spec.base import PositiveCount
from perfrunner.spec.workloads.base import CountRange, ServerWorkload

# One round updates 0.75 of N, N/2 and N/4 items.
UPDATES_PER_ITEM_AND_ROUND = 0.75 * (1 + 0.5 + 0.25)


class AppendSpec(ServerWorkload):
    """A load on documents of 11 to 22 fields of about 60 B that grow by one field per update."""

    type: Literal["append"]
    rounds: Annotated[int, Field(ge=1, le=1000)] = 5
    in_flight: PositiveCount = Field(default=100, description="outstanding requests of each thread")
    slice_ops: PositiveCount = Field(
        default=500,
        description="interleaved: updates in a slice, which takes some milliseconds",
    )
    fields: CountRange = Field(
        default=(11, 22), description="fields of a new document: [smallest, largest]"
    )

    @property
    def updates(self) -> float:
        """The approximate number of read-modify-writes of one trial."""
        return UPDATES_PER_ITEM_AND_ROUND * self.rounds * self.items

    @property
    def item_bytes(self) -> int:
        """The approximate size of a document at the end, with its appended fields."""
        return 128 + 60 * (self.fields[1] + round(self.updates / self.items))

    @property
    def expected_seconds(self) -> float:
        return 2.0 + self.items / 150_000 + self.updates / 100_000 + self.settle
