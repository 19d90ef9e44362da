"""What every workload that loads a running engine declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from typing_extensions import Self

from perfrunner.spec.base import ListAsTuple, Piece
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.metrics import METRICS, OF_CONTENTS, OF_STEPS
from perfrunner.spec.quantities import Duration, PositiveCount, Size

MOST_VALUE = 20 * 2**20  # engine_src/protocol/request_rules.h: kMaxValueLength

# side-by-side: the arms of a cell's block are alive together and the load goes round them in slices.
Schedule: TypeAlias = Literal["side-by-side", "sequential"]

_NOT_MEASURED = ("profile",)


def measured_settings(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Of a workload as it is stored: what its figures depend on. Two that agree in this measure the same."""
    return {key: value for key, value in workload.items() if key not in _NOT_MEASURED}


class AnyWorkload(Piece):
    """What every workload declares."""

    ALONE: ClassVar[str] = ""  # why its arms cannot take turns; empty where they can

    schedule: Schedule | None = Field(
        default=None, description="side-by-side or sequential; none: the spec's"
    )
    profile: Literal["perf"] | None = Field(
        default=None,
        description="perf: once more at the end, each arm under that profiler; not measured",
    )

    @field_validator("schedule")
    @classmethod
    def _takes_turns_if_it_can(cls, schedule: Schedule | None) -> Schedule | None:
        if schedule == "side-by-side" and cls.ALONE:
            raise ValueError(f"expected sequential: {cls.ALONE}")
        return schedule

    def under_profiler(self) -> Self:
        """The same load, without what is counted on engines of its own."""
        return self

    @property
    def least_seconds(self) -> float:
        """A trial cannot be shorter."""
        return 1.0

    @property
    def why_alone(self) -> str:
        """Why its arms run one after the other whatever the spec says; empty where they can take turns."""
        return self.ALONE

    def impossible(
        self,
        cluster: ClusterSpec,  # noqa: ARG002 - a workload that asks for nothing special looks at nothing
        buckets: Sequence[str],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """What it asks for and cannot have on this cluster, with these bucket types: by key, what is expected."""
        return {}

    def may_give(self, metric: str) -> bool:
        """False for a metric that this kind of workload never gives."""
        raise NotImplementedError


class ServerWorkload(AnyWorkload):
    """A workload on a freshly started engine node, driven from a load client over connections."""

    items: PositiveCount
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    settle: Duration = Field(
        default=2.0, description="seconds of rest before the settled memory reading"
    )

    @property
    def per_bucket(self) -> bool:
        """Whether the workload runs once for each bucket type of the spec."""
        return True

    @property
    def least_seconds(self) -> float:
        return 1.0 + self.settle

    def may_give(self, metric: str) -> bool:
        return metric in METRICS and metric not in (*OF_CONTENTS, *OF_STEPS)

    @property
    def item_bytes(self) -> int:
        """Key, value and what an item costs the engine beside them, about."""
        raise NotImplementedError


def is_timed(metric: str, set_share: float) -> bool:
    """False for the latency of an operation that a load with this percentage of SETs never does."""
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
CountRange = Annotated[
    tuple[PositiveCount, PositiveCount],
    AfterValidator(_ascending),
    ListAsTuple,
    BeforeValidator(_one_or_two),
]
