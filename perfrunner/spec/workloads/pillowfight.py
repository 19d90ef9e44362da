"""`type: pillowfight`: populate, wait for persistence, then a mixed read and write load."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from typing_extensions import Self

from perfrunner.spec.quantities import Count, Duration, Percent, PositiveCount, PositiveDuration
from perfrunner.spec.workloads.base import ServerWorkload, SizeRange, is_timed

LEAST_ALONE_S = 1.0  # of load after the ramp
LEAST_BESIDE_S = 0.1  # where the workload says `schedule: side-by-side`


class PillowfightSpec(ServerWorkload):
    """The load that cbc-pillowfight makes, with both of its meanings of the set share.

    key-mod: a key is only ever set, or only ever read, by (key number mod 100) < set_share, as cbc-pillowfight does.
    random: a coin for each operation.
    """

    type: Literal["pillowfight"]
    set_share: Percent = 80.0
    value_size: SizeRange = (256, 256)
    batch: PositiveCount = 100
    connections: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="for each thread"
    )
    key_semantics: Literal["key-mod", "random"] = "random"
    shared_sequence: bool = Field(default=False, description="all threads draw identical keys")
    ramp: Duration = Field(default=1.0, description="seconds at the start that do not count")
    duration: PositiveDuration = Field(
        default=10.0, description="seconds of mixed load on each variant, ramp included"
    )
    slice: PositiveDuration = Field(
        default=0.002,
        description="side by side: seconds of load on an arm before the next one's turn",
    )
    instructions: Count = Field(
        default=0,
        description="operations over which the engine's instructions are counted, apart; 0: not at all",
    )
    rate_limit: PositiveCount | None = Field(
        default=None, description="operations a second over all threads"
    )

    @field_validator("duration")
    @classmethod
    def _leaves_a_steady_window(cls, duration: float, info: ValidationInfo) -> float:
        """A trial that is alone is judged by whole seconds; beside others its slices count, of milliseconds."""
        ramp = info.data.get("ramp")
        if ramp is None:
            return duration
        beside = info.data.get("schedule") == "side-by-side"
        if round(duration - ramp, 9) < (LEAST_BESIDE_S if beside else LEAST_ALONE_S):
            least = (
                f"{LEAST_BESIDE_S * 1000:g} ms more than ramp"
                if beside
                else "one second more than ramp"
            )
            raise ValueError(f"expected at least {least} ({ramp:g} s)")
        return duration

    def under_profiler(self) -> Self:
        """The same load, without what is counted on engines of its own."""
        return self.model_copy(update={"instructions": 0})

    @property
    def least_seconds(self) -> float:
        return super().least_seconds + self.duration

    def may_give(self, metric: str) -> bool:
        if metric == "instructions_per_op":
            return self.instructions > 0
        return super().may_give(metric) and is_timed(metric, self.set_share)

    @property
    def item_bytes(self) -> int:
        """The larger values count: a mixture fragments."""
        return 128 + self.value_size[1]

    @property
    def expected_seconds(self) -> float:
        """A guess of one trial's length, for a plan; measured durations replace it during a run."""
        return 2.0 + self.items / 200_000 + self.duration + self.settle
