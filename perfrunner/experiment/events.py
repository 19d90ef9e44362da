"""Define the events that a run sends to its listener.

The runner never prints. It passes one of these frozen records to the listener at each step; the command line
renders them (as a progress bar, or one line per trial in a log), and tests collect them. Events arrive in order from
one thread. A listener must be fast and must not raise: an exception from it ends the run.

Times are in seconds, sizes in bytes. `block` counts from 1, as in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from perfrunner.domain import Case, TrialStatus

Decision: TypeAlias = Literal["continue", "extend", "stop"]


@dataclass(frozen=True)
class PlanReady:
    """The plan of the run is ready; `trials_done` are already in the store (resumed run)."""

    experiment_id: str
    name: str
    directory: Path
    variants: tuple[str, ...]
    cases: tuple[Case, ...]
    blocks: int
    trials_total: int
    trials_done: int
    seed: int
    resumed: bool


@dataclass(frozen=True)
class BuildStarted:
    """The build of a variant, or its lookup in the cache, starts."""

    variant: str


@dataclass(frozen=True)
class BuildProgress:
    """A build printed a line."""

    variant: str
    line: str


@dataclass(frozen=True)
class BuildFinished:
    """The artifact of a variant is available."""

    variant: str
    build_id: str
    cached: bool
    seconds: float


@dataclass(frozen=True)
class BuildFailed:
    """A build failed. The other variants are still measured, and the run ends with exit code 3."""

    variant: str
    message: str


@dataclass(frozen=True)
class HostReady:
    """A host passed its preflight checks. `warnings` are (text, remedy) pairs."""

    host: str
    role: str
    facts: Mapping[str, object]
    warnings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SettingsCheckPassed:
    """The variant was started on `host`, and all settings read back as requested."""

    variant: str
    host: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class BlockStarted:
    """A block starts."""

    block: int
    blocks: int


@dataclass(frozen=True)
class TrialStarted:
    """A unit of trials starts: a fresh engine, or one for each variant of a group."""

    number: int  # from 1 to `total`, including discarded and failed trials
    total: int
    block: int
    attempt: int
    workload: str
    bucket: str
    variant: str
    others: tuple[str, ...] = ()  # the other variants of the group


@dataclass(frozen=True)
class TrialPhase:
    """The current trial entered a phase, such as start, populate, persist, access, settle or stop."""

    phase: str


@dataclass(frozen=True)
class TrialFinished:
    """A trial ended and is stored; `reason` says why it was discarded or failed."""

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
class BlockDiscarded:
    """A case of a block does not count. If `redo` is true, all its variants are redone at the end."""

    block: int
    workload: str
    bucket: str
    variant: str  # the variant whose trial violated the rule
    reason: str
    redo: bool
    redos: int  # in this run so far, including this one
    max_discarded: int  # the most redos


@dataclass(frozen=True)
class Eta:
    """The time left, estimated from the mean duration of each case so far; None while unknown.

    The seconds include what follows the blocks (the sampling check); the counts of trials do not.
    """

    seconds_left: float | None
    trials_finished: int
    trials_total: int


class Estimate(NamedTuple):
    """An estimate for a variant compared with the baseline, with its 95 % interval.

    It is a ratio, or a difference in the unit of the metric.
    """

    variant: str
    blocks: int
    kind: Literal["ratio", "difference"]
    estimate: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class Provisional:
    """A case of a block is complete: the provisional estimates of its first primary metric, without a verdict."""

    case: Case
    metric: str
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class Precision:
    """The precision of a case after a complete block, in a spec with `precision`.

    `half_width` is the widest of the case's primary metrics.
    """

    case: Case
    block: int
    clean: int  # number of the case's blocks that count
    half_width: float | None  # None: not known yet
    wanted: float
    decision: Decision


TRIALS_PER_CHECK = 2  # of the overhead of sampling in a case: one with samplers, one without


@dataclass(frozen=True)
class SamplingCheck:
    """The blocks are complete; the baseline now runs with and without samplers in these cases."""

    variant: str
    cases: tuple[Case, ...]

    @property
    def trials(self) -> int:
        return TRIALS_PER_CHECK * len(self.cases)


@dataclass(frozen=True)
class Warned:
    """A warning for readers of the results."""

    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Interrupted:
    """A signal ended the run; all processes are stopped and all completed trials are stored."""

    signal_name: str
    resume_command: str


@dataclass(frozen=True)
class RunFinished:
    """The run ended. It is the last event, unless an error ended the run."""

    experiment_id: str
    exit_code: int
    ok: int
    discarded: int
    failed: int
    seconds: float


Event: TypeAlias = (
    PlanReady
    | BuildStarted
    | BuildProgress
    | BuildFinished
    | BuildFailed
    | HostReady
    | SettingsCheckPassed
    | BlockStarted
    | TrialStarted
    | TrialPhase
    | TrialFinished
    | BlockDiscarded
    | Eta
    | Provisional
    | Precision
    | SamplingCheck
    | Warned
    | Interrupted
    | RunFinished
)


class Listener(Protocol):
    """A receiver of events; it must ignore events of unknown classes."""

    def on_event(self, event: Event) -> None: ...


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run.

    exit_code: 0 if every trial counts, 3 if something failed (the rest is stored), 130 if interrupted.
    """

    experiment_id: str
    exit_code: int
    directory: Path
    failures: tuple[str, ...] = ()  # one line per failure, for the end of the terminal output
