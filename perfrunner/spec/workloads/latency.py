"""`type: latency`: front-end latency inside the process, with or without a background DCP client."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from perfrunner.spec.base import BucketType
from perfrunner.spec.quantities import Count, PositiveCount
from perfrunner.spec.units import parse_size
from perfrunner.spec.workloads.base import ValueSize
from perfrunner.spec.workloads.tool import ToolWorkload

NAMES = "Latency/"  # how its metrics' names begin
ITEMS_PER_S = f"{NAMES}Dcp/items_per_s"
MOST_VBUCKETS = 1024  # that the program's DCP producer provides for
_BUFFER = 1024  # engine_src/benchmarks/latency_options.h: bufferSize

VBuckets = Annotated[int, Field(ge=1, le=MOST_VBUCKETS)]
BufferSize = Annotated[int, BeforeValidator(parse_size), Field(ge=1, le=2**30)]


class LatencySpec(ToolWorkload):
    """Add, Get, Replace and Delete of every item, each timed alone.

    Metrics: `Latency/<Phase>/p50_us`, `p95_us`, `p99_us`, `sd_us`, and with `backlog: alone` ITEMS_PER_S.
    """

    type: Literal["latency"]
    items: PositiveCount = 100_000
    value_size: ValueSize = 100
    dcp: Literal["none", "busy", "notify"] = Field(
        default="none",
        description="background DCP client: none, one that busy-waits, one that is woken",
    )
    backlog: Literal["none", "beside", "alone"] = Field(
        default="none",
        description="when the client opens its streams: before the first Add (none), or when all documents are there;"
        " beside: Get, Replace and Delete go on meanwhile; alone: they wait until it has them all, which is timed",
    )
    vbuckets: VBuckets = Field(default=1, description="each has a stream")
    busy_vbuckets: VBuckets | None = Field(
        default=None, description="vBuckets that the documents go round; none: all"
    )
    buffer_size: BufferSize | None = Field(
        default=None, description="flow-control buffer of the client; none: the historic 1024 bytes"
    )
    ack_above: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        default=None,
        description="bytes that the client leaves unacknowledged; none: half of the buffer",
    )
    bucket: BucketType = "persistent"
    ht_size: PositiveCount | None = Field(
        default=None,
        description="hash buckets of a vBucket; none: as the resizer gives its items",
    )
    snapshot_interval_us: Count | None = Field(
        default=None,
        description="shortest time between two snapshots of a stream; none: the engine's",
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
                "expected persistent: an ephemeral bucket keeps no backlog in memory for a client that comes later"
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
        """A client that acknowledges nothing before the buffer is full never gets on."""
        buffer = info.data.get("buffer_size") or _BUFFER
        if ack_above is not None and ack_above >= buffer:
            raise ValueError(f"expected fewer bytes than buffer_size ({buffer})")
        return ack_above

    def may_give(self, metric: str) -> bool:
        return metric.startswith(NAMES) and (metric != ITEMS_PER_S or self.backlog == "alone")

    @property
    def buffer(self) -> int:
        """Bytes of the client's flow-control buffer."""
        return _BUFFER if self.buffer_size is None else self.buffer_size

    @property
    def unacknowledged(self) -> int:
        """Bytes that the client may leave unacknowledged."""
        return self.buffer // 2 if self.ack_above is None else self.ack_above

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return 1.0 + self.items / 50_000
