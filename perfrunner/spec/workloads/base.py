"""Define the fields that all workloads share, those of workloads that load an engine, and those of programs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from perfrunner.spec.base import Duration, ListAsTuple, Piece, PositiveCount, PositiveDuration, Size
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import METRICS, OF_CHURN, OF_CONTENTS, OF_STEPS

MOST_VALUE = 20 * 2**20  # engine_src/protocol/request_rules.h: kMaxValueLength

# interleaved: all variants of a block are alive together, and the load visits them in short slices.
Schedule: TypeAlias = Literal["interleaved", "sequential"]

# perf: perf records every trial.
CpuProfile: TypeAlias = Literal["perf"]


def measured_settings(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a stored workload that its results depend on.

    Two workloads with equal settings measure the same. No profile is as good as a missing key.
    """
    return {key: value for key, value in workload.items() if key != "profile" or value is not None}


class AnyWorkload(Piece):
    """The fields that all workloads share."""

    ALONE: ClassVar[str] = ""  # why its variants cannot be interleaved; empty if they can

    schedule: Schedule | None = Field(
        default=None, description="interleaved or sequential; none: as in the spec"
    )
    profile: CpuProfile | None = Field(
        default=None, description="perf: record the CPU profile of every trial with Linux perf"
    )

    @field_validator("schedule")
    @classmethod
    def _interleaved_if_it_can(cls, schedule: Schedule | None) -> Schedule | None:
        if schedule == "interleaved" and cls.ALONE:
            raise ValueError(f"expected sequential: {cls.ALONE}")
        return schedule

    @property
    def least_seconds(self) -> float:
        """The minimum duration of a trial in seconds."""
        return 1.0

    @property
    def shared_seconds(self) -> float:
        """The part of `expected_seconds` that interleaved variants spend at the same time: they wait."""
        return 0.0

    @property
    def why_alone(self) -> str:
        """Why its variants always run sequentially; empty if they can be interleaved."""
        return self.ALONE

    def impossible(
        self,
        cluster: ClusterSpec,  # noqa: ARG002 - the base class has no such settings
        buckets: Sequence[str],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Return an error by key for each setting that this cluster or these buckets do not allow."""
        return {}

    @property
    @abstractmethod
    def expected_seconds(self) -> float:
        """The estimated duration of a trial, for the plan; measured durations replace it during a run."""

    @abstractmethod
    def may_give(self, metric: str) -> bool:
        """Tell whether this workload can measure a metric."""


class ServerWorkload(AnyWorkload):
    """A workload on a freshly started engine node, driven from a load client over connections."""

    items: PositiveCount
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    settle: Duration = Field(
        default=2.0, description="seconds of rest before the settled memory is read"
    )

    @property
    def per_bucket(self) -> bool:
        """True if the workload runs once for each bucket type of the spec."""
        return True

    @property
    def least_seconds(self) -> float:
        return 1.0 + self.settle

    @property
    def shared_seconds(self) -> float:
        return self.settle

    def may_give(self, metric: str) -> bool:
        return metric in METRICS and metric not in (*OF_CONTENTS, *OF_STEPS, *OF_CHURN)

    @property
    @abstractmethod
    def item_bytes(self) -> int:
        """The approximate memory of an item: key, value and the engine's overhead, in bytes."""


def is_timed(metric: str, set_share: float) -> bool:
    """Tell whether a metric can be measured at this percentage of SETs.

    False for the latency of an operation that the load never performs.
    """
    never = {0.0: "latency_set_", 100.0: "latency_get_"}.get(set_share)
    return never is None or not metric.startswith(never)


def _one_or_two(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value, value)


def _ascending(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError("expected [smallest, largest] in ascending order")
    return pair


ValueSize = Annotated[Size, Field(le=MOST_VALUE)]
SizeRange = Annotated[
    tuple[ValueSize, ValueSize],
    AfterValidator(_ascending),
    ListAsTuple,
    BeforeValidator(_one_or_two),
]
LEAST_KEY, MOST_KEY = 20, 250  # bytes: the digits of a number, and the protocols' limit
KeySize = Annotated[int, Field(ge=LEAST_KEY, le=MOST_KEY)]
KeyRange = Annotated[
    tuple[KeySize, KeySize],
    AfterValidator(_ascending),
    ListAsTuple,
    BeforeValidator(_one_or_two),
]
CountRange = Annotated[
    tuple[PositiveCount, PositiveCount],
    AfterValidator(_ascending),
    ListAsTuple,
    BeforeValidator(_one_or_two),
]


class ToolWorkload(AnyWorkload):
    """A workload whose trial is one process.

    Repetitions inside the process describe the trial; they are not independent replicates.
    """

    slice: PositiveDuration = Field(
        default=0.02,
        description="interleaved: seconds that a program runs in a slice",
    )

    @property
    @abstractmethod
    def measured_program(self) -> str:
        """The program of the artifact that a trial runs."""

    def may_give(self, metric: str) -> bool:
        return metric not in METRICS

    @property
    def per_bucket(self) -> bool:
        """Always False: these programs have no bucket."""
        return False
