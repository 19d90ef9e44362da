"""What a run tells whoever watches it.

The runner never prints. It hands one of these frozen records to the listener at each step; the command line
renders them (a bar on a terminal, a line a trial in a log), tests collect them. Events arrive from one thread,
in order. A listener must be quick and must not raise: an exception from it ends the run.

Times are seconds, sizes bytes. `block` counts from 1, as in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

Decision: TypeAlias = Literal["continue", "extend", "stop"]
TrialStatus: TypeAlias = Literal["ok", "void", "failed"]


@dataclass(frozen=True)
class PlanReady:
    """The run is laid out; `trials_done` were found in the store (a resumed run)."""

    experiment_id: str
    name: str
    directory: Path
    variants: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]  # (workload, bucket); bucket is "-" where there is none
    blocks: int
    trials_total: int
    trials_done: int
    seed: int
    resumed: bool


@dataclass(frozen=True)
class BuildStarted:
    """The variant is being built, or looked up in the cache."""

    variant: str


@dataclass(frozen=True)
class BuildProgress:
    """A line of the build."""

    variant: str
    line: str


@dataclass(frozen=True)
class BuildFinished:
    """The artifact is there."""

    variant: str
    build_id: str
    cached: bool
    seconds: float


@dataclass(frozen=True)
class BuildFailed:
    """Recorded, not fatal: the other variants are still measured and the run ends with exit code 3."""

    variant: str
    message: str


@dataclass(frozen=True)
class HostReady:
    """A host answered its preflight. `warnings` are (what, remedy) pairs."""

    host: str
    role: str
    facts: Mapping[str, object]
    warnings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ProofPassed:
    """The variant was started on `host` and each of its settings read back as asked."""

    variant: str
    host: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class BlockStarted:
    """The first trial of a block is next."""

    block: int
    blocks: int


@dataclass(frozen=True)
class TrialStarted:
    """A fresh engine is about to be started, or one for each arm of an ensemble."""

    number: int  # 1.. of `total`, void and failed ones included
    total: int
    block: int
    attempt: int
    workload: str
    bucket: str
    variant: str
    beside: tuple[str, ...] = ()  # the other arms, side by side with it


@dataclass(frozen=True)
class TrialPhase:
    """The trial in flight entered a phase: start, populate, persist, access, settle, stop..."""

    phase: str
    expected_s: float | None = None  # how long the phase is likely to take, where it is known


@dataclass(frozen=True)
class TrialFinished:
    """The trial ended and is stored; `reason` says why it is void or failed."""

    number: int
    total: int
    block: int
    attempt: int
    workload: str
    bucket: str
    variant: str
    status: TrialStatus
    reason: str
    seconds: float
    metrics: Mapping[str, float]
    directory: Path


@dataclass(frozen=True)
class BlockVoid:
    """This cell of the block does not count and is redone, every variant, at the end (`redo` tells whether)."""

    block: int
    workload: str
    bucket: str
    variant: str  # the arm whose trial broke the rule
    reason: str
    redo: bool
    voids: int
    max_voids: int


@dataclass(frozen=True)
class Eta:
    """Estimated from the mean duration of each cell so far; None while nothing is known.

    The seconds hold what follows the blocks (sampling check, profiles), the counts of trials do not.
    """

    seconds_left: float | None
    trials_finished: int
    trials_total: int


class Estimate(NamedTuple):
    """An arm against the baseline: a ratio, or a difference in the metric's unit, with its 95 % interval."""

    variant: str
    blocks: int
    kind: Literal["ratio", "difference"]
    estimate: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class Provisional:
    """A cell's block is whole: what its first primary metric says so far. No verdict, and nothing follows from it."""

    cell: tuple[str, str]  # (workload, bucket)
    metric: str
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class Precision:
    """After a whole block of a spec with `precision`: the widest half-width of a cell's primary metrics."""

    cell: tuple[str, str]  # (workload, bucket)
    block: int
    clean: int  # of the cell's blocks, how many count
    half_width: float | None  # None: not computable yet
    wanted: float
    decision: Decision


@dataclass(frozen=True)
class SamplingCheck:
    """All trials are done; the baseline runs twice more in these cells, with samplers and without."""

    variant: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Profiling:
    """What is measured is done; these variants run once more in these cells, with a profiler."""

    variants: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Warned:
    """Something that a reader of the results should know."""

    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Interrupted:
    """Ctrl-C or SIGTERM ended the run; all is stopped and stored."""

    signal_name: str
    resume_command: str


@dataclass(frozen=True)
class RunFinished:
    """The last event, however the run ended (an error aside)."""

    experiment_id: str
    exit_code: int
    ok: int
    void: int
    failed: int
    seconds: float


Event: TypeAlias = (
    PlanReady
    | BuildStarted
    | BuildProgress
    | BuildFinished
    | BuildFailed
    | HostReady
    | ProofPassed
    | BlockStarted
    | TrialStarted
    | TrialPhase
    | TrialFinished
    | BlockVoid
    | Eta
    | Provisional
    | Precision
    | SamplingCheck
    | Profiling
    | Warned
    | Interrupted
    | RunFinished
)


class Listener(Protocol):
    """`match` on the event's class; ignore those you do not know."""

    def on_event(self, event: Event) -> None: ...


@dataclass(frozen=True)
class RunOutcome:
    """exit_code: 0 every trial counted, 3 something failed (the rest is stored), 130 interrupted."""

    experiment_id: str
    exit_code: int
    directory: Path
    failures: tuple[str, ...] = field(
        default=()
    )  # one line each, for the end of the terminal output
