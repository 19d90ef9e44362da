"""`type: step`: a cluster that changes under load: a failover, or a rebalance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import OF_STEPS
from perfrunner.spec.quantities import Duration, Percent, PositiveCount
from perfrunner.spec.workloads.base import ServerWorkload, SizeRange, is_timed

LEAST_S = 1.0  # of load before and after the step
MOST_BATCH_BYTES = 256 * 2**20  # engine_src/load/witness_options.cc: kMaxBatchBytes
# As an estimate for the plan.
READ_PER_S, POPULATED_PER_S, MOVED_PER_S, STEP_S = 100_000, 200_000, 50, 2.0
_OF = {"detection": "failover", "share": "rebalance", "at_once": "rebalance"}


class StepSpec(ServerWorkload):
    """Reads and writes in batches by the cluster's map, whose every acknowledged write is accounted for.

    failover: the last engine node is killed, and its replicas are promoted.
    rebalance: vBuckets of the first engine node move to the second.
    """

    ALONE: ClassVar[str] = (
        "a step changes the cluster of one arm, and its load goes on for as long as it takes"
    )

    type: Literal["step"]
    change: Literal["failover", "rebalance"]
    set_share: Percent = 50.0
    value_size: SizeRange = (256, 256)
    batch: PositiveCount = 100
    connections: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="for each thread, to each engine node"
    )
    ramp: Duration = Field(default=1.0, description="seconds at the start that do not count")
    before: Annotated[Duration, Field(ge=LEAST_S)] = Field(
        default=5.0, description="seconds of load between ramp and step"
    )
    after: Annotated[Duration, Field(ge=LEAST_S)] = Field(
        default=5.0, description="seconds of load when the step is done"
    )
    detection: Duration = Field(
        default=0.0,
        description="failover: seconds from the kill until the failover begins, as a manager's time-out",
    )
    share: Annotated[Percent, Field(gt=0)] = Field(
        default=50.0, description="rebalance: percent of the first node's active vBuckets"
    )
    at_once: PositiveCount = Field(default=64, description="rebalance: vBuckets that move together")
    settle: Duration = Field(default=0.0, description="0: no memory is read after a step")

    @field_validator("profile")
    @classmethod
    def _not_profiled(cls, profile: str | None) -> str | None:
        if profile is not None:
            raise ValueError("expected nothing: a process that is killed leaves no profile")
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
        # A spec that was written out whole names the other step's defaults, too.
        if change is not None and change != wanted and value != cls.model_fields[name].default:
            raise ValueError(f"expected nothing: only a {wanted} has it")
        return value

    @field_validator("batch")
    @classmethod
    def _fits(cls, batch: int, info: ValidationInfo) -> int:
        sizes = info.data.get("value_size")
        if sizes is not None and batch * sizes[1] > MOST_BATCH_BYTES:
            raise ValueError(
                f"expected at most {MOST_BATCH_BYTES // sizes[1]}: a batch has 256 MiB or less"
            )
        return batch

    @field_validator("connections")
    @classmethod
    def _each_has_keys(cls, connections: int, info: ValidationInfo) -> int:
        items, threads = info.data.get("items"), info.data.get("threads")
        if items is not None and threads is not None and connections * threads > items:
            raise ValueError(
                f"expected at most {items // threads}: each of {threads} threads' connections needs a key of its own"
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
        """The larger values count: a mixture fragments."""
        return 128 + self.value_size[1]

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return (
            3.0
            + self.items / POPULATED_PER_S
            + 2 * self.items / READ_PER_S
            + self.least_seconds
            + STEP_S
        )
