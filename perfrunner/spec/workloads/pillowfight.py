"""Define `type: pillowfight`: populate, wait for persistence, then run a mixed load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from perfrunner.spec.base import (
    Count,
    Duration,
    ListAsTuple,
    Percent,
    Piece,
    PositiveCount,
    PositiveDuration,
)
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import OF_CHURN
from perfrunner.spec.workloads.base import LEAST_KEY, KeyRange, ServerWorkload, SizeRange, is_timed

LEAST_ALONE_S = 1.0  # of load after the ramp
LEAST_INTERLEAVED_S = 0.1  # if the workload sets `schedule: interleaved`


LONGEST_GAP_S = 0.1  # between two batches of a connection, if rate_limit is set


class ChurnSpec(Piece):
    """What happens to the items before the mixed load: some are deleted, and come back with another size."""

    delete: Annotated[Percent, Field(gt=0)] = Field(
        default=67.0, description="percent of the items that are deleted, drawn at random"
    )
    wait: Duration = Field(default=5.0, description="seconds of rest after the deletion")
    value_size: SizeRange = Field(description="of the items that come back")
    steps: Annotated[tuple[SizeRange, ...], ListAsTuple] = Field(
        default=(),
        description="value sizes that follow: each step draws other items and replaces them by items of that size",
    )


class PillowfightSpec(ServerWorkload):
    """The load of cbc-pillowfight, with two meanings of the set share.

    key-mod: as in cbc-pillowfight, a key is only set if (key number mod 100) < set_share, else only read.
    random: each operation is drawn independently.
    """

    type: Literal["pillowfight"]
    set_share: Percent = 80.0
    value_size: SizeRange = (256, 256)
    sizes: Literal["uniform", "lognormal"] = Field(
        default="uniform",
        description="between the smallest and the largest; lognormal: these are three standard deviations"
        " from the middle",
    )
    key_size: KeyRange = Field(
        default=(LEAST_KEY, LEAST_KEY),
        description="bytes; of a range, every key has a random length, and another one when it comes back",
    )
    churn: ChurnSpec | None = Field(
        default=None, description="delete items and store them again; none: the items stay"
    )
    batch: PositiveCount = 100
    connections: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="connections of each thread"
    )
    key_semantics: Literal["key-mod", "random"] = "random"
    shared_sequence: bool = Field(
        default=False, description="all threads use the same sequence of keys"
    )
    ramp: Duration = Field(default=1.0, description="seconds at the start that are not measured")
    duration: PositiveDuration = Field(
        default=10.0, description="seconds of mixed load on each variant, ramp included"
    )
    slice: PositiveDuration = Field(
        default=0.002,
        description="interleaved: seconds of load in a slice",
    )
    instructions: Count = Field(
        default=0,
        description="operations over which the engine's instructions are counted separately; 0: none",
    )
    rate_limit: PositiveCount | None = Field(
        default=None, description="operations per second over all threads; none: no limit"
    )

    @field_validator("duration")
    @classmethod
    def _leaves_a_steady_window(cls, duration: float, info: ValidationInfo) -> float:
        """Require a steady window: whole seconds if sequential, slices of milliseconds if interleaved."""
        ramp = info.data.get("ramp")
        if ramp is None:
            return duration
        interleaved = info.data.get("schedule") == "interleaved"
        if round(duration - ramp, 9) < (LEAST_INTERLEAVED_S if interleaved else LEAST_ALONE_S):
            least = (
                f"{LEAST_INTERLEAVED_S * 1000:g} ms more than ramp"
                if interleaved
                else "one second more than ramp"
            )
            raise ValueError(f"expected at least {least} ({ramp:g} s)")
        return duration

    @property
    def all_sizes(self) -> tuple[int, int]:
        """The smallest and the largest value that the mixed load meets."""
        if self.churn is None:
            return self.value_size
        every = (self.value_size, self.churn.value_size, *self.churn.steps)
        return min(low for low, _ in every), max(high for _, high in every)

    @model_serializer(mode="wrap")
    def _without_newer_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit newer fields at their defaults, so that the record equals that of older versions."""
        fields: dict[str, Any] = handler(self)
        for name in ("sizes", "key_size", "churn"):
            if getattr(self, name) == type(self).model_fields[name].default:
                fields.pop(name, None)
        return fields

    def impossible(
        self,
        cluster: ClusterSpec,
        buckets: Sequence[str],  # noqa: ARG002 - either type will do
    ) -> Mapping[str, str]:
        """Refuse a rate at which a connection sends rare bursts, whose latency is not representative."""
        if self.rate_limit is None:
            return {}
        connections = self.threads * self.connections * len(cluster.load_clients)
        needed = math.ceil(self.batch * connections / LONGEST_GAP_S)
        if self.rate_limit >= needed:
            return {}
        gap = self.batch * connections / self.rate_limit
        fitting = int(self.rate_limit * LONGEST_GAP_S / connections)
        remedy = f"batch: {fitting}" if fitting else "batch: 1 and fewer connections"
        text = (
            f"expected at least {needed} operations per second, or {remedy}: each of {connections} connections sends"
            f" a batch of {self.batch} only every {gap:.3g} s; got {self.rate_limit}"
        )
        return {"rate_limit": text}

    @property
    def least_seconds(self) -> float:
        return 1.0 + self.shared_seconds + self.duration

    @property
    def shared_seconds(self) -> float:
        return self.settle + (0.0 if self.churn is None else self.churn.wait)

    def may_give(self, metric: str) -> bool:
        if metric == "instructions_per_op":
            return self.instructions > 0
        if metric == "slow_slices" and self.rate_limit is not None:
            return False  # a slice without a due batch is empty, not slow
        if metric in OF_CHURN:
            return self.churn is not None
        return super().may_give(metric) and is_timed(metric, self.set_share)

    @property
    def item_bytes(self) -> int:
        """The approximate memory of an item with the largest key and value, because mixed sizes fragment."""
        return 128 + self.key_size[1] - LEAST_KEY + self.all_sizes[1]

    @property
    def expected_seconds(self) -> float:
        stored = self.items
        if self.churn is not None:
            runs = 2 + (1 if len(set(self.key_size)) == 1 else 2) * len(self.churn.steps)
            stored += round(runs * self.items * self.churn.delete / 100)
        return 2.0 + stored / 200_000 + self.duration + self.shared_seconds
