"""Define `type: sdk`: the view of an application that uses the Couchbase Python SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from perfrunner.spec.base import Duration, Percent, PositiveCount, PositiveDuration
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import METRICS, OF_CHURN, OF_STEPS
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.workloads.base import ServerWorkload, SizeRange, is_timed
from perfrunner.spec.workloads.pillowfight import LEAST_ALONE_S

LEVELS = ("none", "majority")
LEVELS_ON_DISK = ("majority_and_persist_to_active", "persist_to_majority")
LEAST_DOCUMENT = 64  # bytes: key, version and some body
# Rates of one process on one CPU, as estimates for the plan.
POPULATED_PER_S, VERIFIED_PER_S, ALONE_PER_S = 20_000, 20_000, 4_000
RESTART_S, FAILOVER_S = 3.0, 3.0
_NEVER = ("ops_per_s_total", "slow_slices", "instructions_per_op", *OF_STEPS, *OF_CHURN)


def _offered(level: str) -> str:
    if level in LEVELS_ON_DISK:
        raise ValueError("expected none or majority: the engine refuses levels that wait for disk")
    if level not in LEVELS:
        raise ValueError(expected_name("a durability level", level, LEVELS))
    return level


def _documents(sizes: tuple[int, int]) -> tuple[int, int]:
    if sizes[0] < LEAST_DOCUMENT:
        raise ValueError(
            f"expected at least {LEAST_DOCUMENT} bytes: a document holds its key and version"
        )
    return sizes


class SdkSpec(ServerWorkload):
    """A load on JSON documents, one operation at a time per process, with verified contents."""

    ALONE: ClassVar[str] = "the Couchbase SDK cannot run a load in slices"

    type: Literal["sdk"]
    processes: Annotated[int, Field(ge=1, le=256)] = Field(
        default=2, description="processes on each load client; each has one outstanding operation"
    )
    set_share: Percent = 20.0
    value_size: Annotated[SizeRange, AfterValidator(_documents)] = (256, 256)
    durability: Annotated[str, AfterValidator(_offered)] = Field(
        default="none", description="durability level of writes: none or majority"
    )
    ramp: Duration = Field(default=1.0, description="seconds at the start that are not measured")
    duration: PositiveDuration = Field(
        default=10.0, description="seconds of mixed load, ramp included"
    )
    operations: PositiveCount | None = Field(
        default=None,
        description="operations over all processes: a fixed amount of work instead of duration and ramp",
    )
    restart: bool = Field(
        default=False,
        description="persistent buckets: restart the engine on its data and verify all documents again",
    )
    failover: bool = Field(
        default=False,
        description="kill an engine node, promote its replicas and verify all documents again",
    )

    @field_validator("threads")
    @classmethod
    def _by_processes(cls, threads: int) -> int:
        if threads != 1:
            raise ValueError(
                "expected 1: set the number of outstanding operations with `processes`"
            )
        return threads

    @field_validator("processes")
    @classmethod
    def _each_has_keys(cls, processes: int, info: ValidationInfo) -> int:
        items = info.data.get("items")
        if items is not None and processes > items:
            raise ValueError(f"expected at most {items} (one process per item)")
        return processes

    @field_validator("duration")
    @classmethod
    def _leaves_a_steady_window(cls, duration: float, info: ValidationInfo) -> float:
        ramp = info.data.get("ramp")
        if ramp is not None and round(duration - ramp, 9) < LEAST_ALONE_S:
            raise ValueError(f"expected at least one second more than ramp ({ramp:g} s)")
        return duration

    def impossible(self, cluster: ClusterSpec, buckets: Sequence[str]) -> Mapping[str, str]:
        problems = {}
        if self.durability != "none" and cluster.replicas:
            problems["durability"] = (
                "expected none on a cluster with replicas: the engine answers before replicas have the write"
            )
        if self.restart and "persistent" not in buckets:
            problems["restart"] = "expected false: ephemeral buckets lose their data in a restart"
        elif self.restart and len(cluster.engine_nodes) > 1:
            problems["restart"] = (
                "expected false: a restart needs a cluster with a single engine node"
            )
        if self.failover and not cluster.replicas:
            problems["failover"] = "expected false: the cluster has no replicas to promote"
        return problems

    @property
    def least_seconds(self) -> float:
        return super().least_seconds + (0.0 if self.operations else self.duration)

    def may_give(self, metric: str) -> bool:
        return metric in METRICS and metric not in _NEVER and is_timed(metric, self.set_share)

    @property
    def item_bytes(self) -> int:
        """The approximate memory of an item with the largest value, because mixed sizes fragment."""
        return 128 + self.value_size[1]

    @property
    def expected_seconds(self) -> float:
        around = self.items / POPULATED_PER_S + self.items / VERIFIED_PER_S
        again = self.restart * (RESTART_S + self.items / VERIFIED_PER_S)
        again += self.failover * (FAILOVER_S + self.items / VERIFIED_PER_S)
        load = self.operations / ALONE_PER_S if self.operations else self.duration
        return 6.0 + around + load + self.settle + again
