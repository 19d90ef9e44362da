"""Define `type: latency`: in-process front-end latency, with or without a background DCP client."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from perfrunner.spec.base import BucketType, Count, PositiveCount
from perfrunner.spec.units import parse_size
from perfrunner.spec.workloads.base import ToolWorkload, ValueSize

PROGRAM = "front_end_latency"
NAMES = "Latency/"  # prefix of its metrics
ITEMS_PER_S = f"{NAMES}Dcp/items_per_s"
MOST_VBUCKETS = 1024  # supported by the program's DCP producer
_BUFFER = 1024  # engine_src/benchmarks/latency_options.h: bufferSize

VBuckets = Annotated[int, Field(ge=1, le=MOST_VBUCKETS)]
BufferSize = Annotated[int, BeforeValidator(parse_size), Field(ge=1, le=2**30)]


class LatencySpec(ToolWorkload):
    """A run of Add, Get, Replace and Delete on every item, each operation timed separately.

    Metrics: `Latency/<Phase>/p50_us`, `p95_us`, `p99_us`, `sd_us`, and with `backlog: alone` ITEMS_PER_S.
    """

    type: Literal["latency"]
    items: PositiveCount = 100_000
    value_size: ValueSize = 100
    dcp: Literal["none", "busy", "notify"] = Field(
        default="none",
        description="background DCP client: none, one that busy-waits (busy), or one that is woken (notify)",
    )
    backlog: Literal["none", "beside", "alone"] = Field(
        default="none",
        description="when the client opens its streams: none: before the first Add; beside: after the last Add,"
        " while Get, Replace and Delete run; alone: after the last Add, and the other phases wait until the"
        " client has received everything, which is timed",
    )
    vbuckets: VBuckets = Field(default=1, description="number of vBuckets; each has a stream")
    busy_vbuckets: VBuckets | None = Field(
        default=None, description="vBuckets that the documents are distributed over; none: all"
    )
    buffer_size: BufferSize | None = Field(
        default=None, description="flow-control buffer of the client; none: the historic 1024 bytes"
    )
    ack_above: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        default=None,
        description="bytes that the client may leave unacknowledged; none: half of the buffer",
    )
    bucket: BucketType = "persistent"
    ht_size: PositiveCount | None = Field(
        default=None,
        description="hash buckets of a vBucket; none: sized by the resizer",
    )
    snapshot_interval_us: Count | None = Field(
        default=None,
        description="minimum interval between two snapshots of a stream; none: the engine's default",
    )

    @field_validator("backlog")
    @classmethod
    def _for_a_client(cls, backlog: str, info: ValidationInfo) -> str:
        if backlog != "none" and info.data.get("dcp") == "none":
            raise ValueError("expected none: there is no DCP client (dcp: busy or notify)")
        return backlog

    @field_validator("bucket")
    @classmethod
    def _keeps_a_backlog(cls, bucket: str, info: ValidationInfo) -> str:
        if bucket == "ephemeral" and info.data.get("backlog", "none") != "none":
            raise ValueError(
                "expected persistent: an ephemeral bucket keeps no backlog for a client that connects later"
            )
        return bucket

    @field_validator("busy_vbuckets")
    @classmethod
    def _are_vbuckets(cls, busy: int | None, info: ValidationInfo) -> int | None:
        all_of_them = info.data.get("vbuckets")
        if busy is not None and all_of_them is not None and busy > all_of_them:
            raise ValueError(f"expected at most vbuckets ({all_of_them})")
        return busy

    @field_validator("ack_above")
    @classmethod
    def _leaves_room(cls, ack_above: int | None, info: ValidationInfo) -> int | None:
        """Refuse a threshold at which the client would wait forever for a full buffer to drain."""
        buffer = info.data.get("buffer_size") or _BUFFER
        if ack_above is not None and ack_above >= buffer:
            raise ValueError(f"expected fewer bytes than buffer_size ({buffer})")
        return ack_above

    @property
    def measured_program(self) -> str:
        return PROGRAM

    def may_give(self, metric: str) -> bool:
        return metric.startswith(NAMES) and (metric != ITEMS_PER_S or self.backlog == "alone")

    @property
    def buffer(self) -> int:
        """The size of the client's flow-control buffer in bytes."""
        return _BUFFER if self.buffer_size is None else self.buffer_size

    @property
    def unacknowledged(self) -> int:
        """The number of bytes that the client may leave unacknowledged."""
        return self.buffer // 2 if self.ack_above is None else self.ack_above

    @property
    def expected_seconds(self) -> float:
        return 1.0 + self.items / 50_000
