"""Define `type: step`: a failover or rebalance of the cluster under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from perfrunner.spec.base import Duration, Percent, PositiveCount
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import OF_STEPS
from perfrunner.spec.workloads.base import ServerWorkload, SizeRange, is_timed

LEAST_S = 1.0  # of load before and after the step
# kMaxBatchBytes of engine_src/load/generators/consistency_checker_options.cc.
MOST_BATCH_BYTES = 256 * 2**20
# Rates and durations as estimates for the plan.
READ_PER_S, POPULATED_PER_S, STEP_S = 100_000, 200_000, 2.0
_OF = {"detection": "failover", "share": "rebalance", "at_once": "rebalance"}


class StepSpec(ServerWorkload):
    """A load in batches over the cluster map, in which every acknowledged write is checked.

    failover: the last engine node is killed, and its replicas are promoted.
    rebalance: vBuckets of the first engine node move to the second.
    """

    ALONE: ClassVar[str] = (
        "a step changes the cluster of one variant, and its load runs until the step is complete"
    )

    type: Literal["step"]
    change: Literal["failover", "rebalance"]
    set_share: Percent = 50.0
    value_size: SizeRange = (256, 256)
    batch: PositiveCount = 100
    connections: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="connections of each thread to each engine node"
    )
    ramp: Duration = Field(default=1.0, description="seconds at the start that are not measured")
    before: Annotated[Duration, Field(ge=LEAST_S)] = Field(
        default=5.0, description="seconds of load between ramp and step"
    )
    after: Annotated[Duration, Field(ge=LEAST_S)] = Field(
        default=5.0, description="seconds of load after the step"
    )
    detection: Duration = Field(
        default=0.0,
        description="failover: seconds from the kill until the failover begins, like the time-out of a"
        " cluster manager",
    )
    share: Annotated[Percent, Field(gt=0)] = Field(
        default=50.0, description="rebalance: percent of the first node's active vBuckets"
    )
    at_once: PositiveCount = Field(default=64, description="rebalance: vBuckets that move together")
    settle: Duration = Field(default=0.0, description="must be 0: no memory is read after a step")

    @field_validator("profile")
    @classmethod
    def _not_profiled(cls, profile: str | None) -> str | None:
        if profile is not None:
            raise ValueError("expected no profile: a killed process leaves none")
        return profile

    @field_validator("settle")
    @classmethod
    def _no_rest(cls, settle: float) -> float:
        if settle:
            raise ValueError("expected 0: no memory is read after a step")
        return settle

    @field_validator(*_OF)
    @classmethod
    def _of_this_step(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        change, wanted = info.data.get("change"), _OF[name]
        # A spec that perfrunner wrote also contains the defaults of the other change.
        if change is not None and change != wanted and value != cls.model_fields[name].default:
            raise ValueError(f"expected no value: only a {wanted} uses this key")
        return value

    @field_validator("batch")
    @classmethod
    def _fits(cls, batch: int, info: ValidationInfo) -> int:
        sizes = info.data.get("value_size")
        if sizes is not None and batch * sizes[1] > MOST_BATCH_BYTES:
            raise ValueError(
                f"expected at most {MOST_BATCH_BYTES // sizes[1]}: a batch is limited to 256 MiB"
            )
        return batch

    @field_validator("connections")
    @classmethod
    def _each_has_keys(cls, connections: int, info: ValidationInfo) -> int:
        items, threads = info.data.get("items"), info.data.get("threads")
        if items is not None and threads is not None and connections * threads > items:
            raise ValueError(
                f"expected at most {items // threads}: each connection of {threads} threads needs its own key"
            )
        return connections

    def impossible(
        self,
        cluster: ClusterSpec,
        buckets: Sequence[str],  # noqa: ARG002 - either type does
    ) -> Mapping[str, str]:
        nodes = len(cluster.engine_nodes)
        if self.change == "failover" and not cluster.replicas:
            return {
                "change": f"expected a cluster with replicas for a failover; {cluster.name} has none"
            }
        if self.change == "rebalance" and nodes < 2:
            return {
                "change": f"expected two engine nodes or more for a rebalance; {cluster.name} has {nodes}"
            }
        return {}

    @property
    def least_seconds(self) -> float:
        return super().least_seconds + self.ramp + self.before + self.detection + self.after

    def may_give(self, metric: str) -> bool:
        own = ("ops_per_s", "client_cpu_us_per_op", *OF_STEPS)
        timed = metric.startswith("latency_") and is_timed(metric, self.set_share)
        return timed or metric in own

    @property
    def item_bytes(self) -> int:
        """The approximate memory of an item with the largest value, because mixed sizes fragment."""
        return 128 + self.value_size[1]

    @property
    def expected_seconds(self) -> float:
        return (
            3.0
            + self.items / POPULATED_PER_S
            + 2 * self.items / READ_PER_S
            + self.least_seconds
            + STEP_S
        )
