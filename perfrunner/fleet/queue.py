"""What a queue of jobs can do, and how a job stands. The rest of the fleet knows no more of its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from perfrunner.errors import EXIT_OK, EXIT_VERDICT, UsageError
from perfrunner.fleet.job import Job

# lost: a job that was taken more often than the queue believes in.
State: TypeAlias = Literal["queued", "running", "done", "worse", "failed", "cancelled", "lost"]
UNFINISHED: tuple[State, ...] = ("queued", "running")


@dataclass(frozen=True)
class Progress:
    """How far a job's run is, as its driver saw it at `at`. `waiting`: why it cannot begin yet."""

    experiment: str = ""
    finished: int | None = None
    total: int | None = None
    seconds_left: float | None = None
    waiting: str = ""
    at: float = 0.0  # seconds since the epoch

    def left_at(self, now: float) -> float | None:
        """Seconds from `now` on."""
        return None if self.seconds_left is None else max(self.seconds_left - (now - self.at), 0.0)


@dataclass(frozen=True)
class Ending:
    """How a run ended: the exit code of `perfrunner run`, and what it said last where that was not 0."""

    code: int
    experiment: str = ""
    said: str = ""

    @property
    def state(self) -> State:
        states: dict[int, State] = {EXIT_OK: "done", EXIT_VERDICT: "worse"}
        return states.get(self.code, "failed")


@dataclass(frozen=True)
class JobStatus:
    """A job in the queue. `driver`: who has it, or had it last."""

    job: Job
    state: State
    driver: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: Progress = field(default_factory=Progress)
    ending: Ending | None = None


class Queue(Protocol):
    """Durable; any number of processes on any number of machines may use it at a time."""

    def submit(self, job: Job) -> bool:
        """False where a job of this id is known already: nothing is changed then."""
        ...

    def jobs(self) -> Sequence[JobStatus]:
        """All of them, in the order in which they were submitted."""
        ...

    def job(self, job_id: str) -> JobStatus | None: ...

    def cancel(self, job_id: str) -> None:
        """Takes it off the queue; a driver that has it stops its run. Nothing where it has ended."""
        ...

    def give_back(self, driver: str) -> Sequence[str]:
        """The jobs that a driver has are queued again, and their ids are returned."""
        ...

    def forget(self, job_ids: Sequence[str]) -> None:
        """As if they had never been submitted: for jobs that have ended (fleet/retention.py)."""
        ...

    def tell(self, job_id: str, progress: Progress) -> None: ...

    def close(self) -> None: ...


def find(queue: Queue, reference: str) -> JobStatus:
    """The job of an id, or of the start of exactly one."""
    every = queue.jobs()
    fitting = [s for s in every if s.job.id == reference] or [
        s for s in every if reference and s.job.id.startswith(reference)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        ids = ", ".join(status.job.id for status in fitting)
        raise UsageError(f"{reference!r} is the start of several jobs: {ids}")
    from perfrunner.spec.suggest import did_you_mean

    near = did_you_mean(reference, [status.job.id for status in every])
    raise UsageError(f"there is no job {reference!r}{near}", "perfrunner fleet status --all")


def progress_of(document: Mapping[str, Any] | None) -> Progress:
    """As `dataclasses.asdict` wrote it; what is not known to this perfrunner is left out."""
    known = Progress.__dataclass_fields__
    return Progress(**{k: v for k, v in (document or {}).items() if k in known})
