"""The interface of a queue of jobs, and the state of a job. The rest of the fleet uses only these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias

from perfrunner.errors import EXIT_OK, EXIT_VERDICT, UsageError
from perfrunner.fleet.job import Job

# lost: a job that was taken more often than the queue allows.
State: TypeAlias = Literal["queued", "running", "done", "worse", "failed", "cancelled", "lost"]
UNFINISHED: tuple[State, ...] = ("queued", "running")


@dataclass(frozen=True)
class Progress:
    """The progress of a job's run, as its worker saw it at `at`; `waiting` says why it cannot start."""

    experiment: str = ""
    finished: int | None = None
    total: int | None = None
    seconds_left: float | None = None
    waiting: str = ""
    at: float = 0.0  # seconds since the epoch

    def left_at(self, now: float) -> float | None:
        """Return the seconds left from `now` on, or None if they are unknown."""
        return None if self.seconds_left is None else max(self.seconds_left - (now - self.at), 0.0)


@dataclass(frozen=True)
class Ending:
    """The end of a run: the exit code of `perfrunner run`, and its last message on a failure (`message`)."""

    code: int
    experiment: str = ""
    message: str = ""

    @property
    def state(self) -> State:
        """The state of a job that ended so."""
        states: dict[int, State] = {EXIT_OK: "done", EXIT_VERDICT: "worse"}
        return states.get(self.code, "failed")


@dataclass(frozen=True)
class JobStatus:
    """A job in the queue; `worker` has it, or had it last."""

    job: Job
    state: State
    worker: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: Progress = field(default_factory=Progress)
    ending: Ending | None = None


class Queue(Protocol):
    """A durable queue of jobs, which processes on several machines may use at the same time."""

    def submit(self, job: Job) -> bool:
        """Queue a job; return False, without a change, if its id exists already."""
        ...

    def jobs(self) -> Sequence[JobStatus]:
        """Return all jobs in the order of submission."""
        ...

    def job(self, job_id: str) -> JobStatus | None:
        """Return the job with this id, or None."""
        ...

    def cancel(self, job_id: str) -> None:
        """Remove a job from the queue; a worker that has it stops its run. An ended job stays."""
        ...

    def give_back(self, worker: str) -> Sequence[str]:
        """Requeue the jobs of a worker, and return their ids."""
        ...

    def forget(self, job_ids: Sequence[str]) -> None:
        """Delete ended jobs (see `forgettable`)."""
        ...

    def tell(self, job_id: str, progress: Progress) -> None:
        """Store the progress of a job."""
        ...

    def finish(self, job_id: str, ending: Ending) -> None:
        """Store how the run of a job ended. The job itself ends when its worker returns."""
        ...

    def close(self) -> None:
        """Close the connections of the queue."""
        ...


def find(queue: Queue, reference: str) -> JobStatus:
    """Return the job with an id or a unique start of one. Raises UsageError."""
    jobs = queue.jobs()
    matching = [s for s in jobs if s.job.id == reference] or [
        s for s in jobs if reference and s.job.id.startswith(reference)
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ids = ", ".join(status.job.id for status in matching)
        raise UsageError(
            f"{reference!r} is the start of several jobs: {ids}", "give a longer start"
        )
    from perfrunner.spec.suggest import did_you_mean

    near = did_you_mean(reference, [status.job.id for status in jobs])
    raise UsageError(
        f"there is no job {reference!r}{near}", "list the jobs with: perfrunner fleet status --all"
    )


def progress_of(document: Mapping[str, Any] | None) -> Progress:
    """Read a progress from its document; fields that this version does not know are ignored."""
    known = Progress.__dataclass_fields__
    return Progress(**{k: v for k, v in (document or {}).items() if k in known})


def ending_of(document: Mapping[str, Any] | None) -> Ending | None:
    """Return the ending that `dataclasses.asdict` wrote, without the fields of a newer perfrunner.

    An older one has its message under `said`.
    """
    if document is None:
        return None
    known = Ending.__dataclass_fields__
    named = {"message" if k == "said" else k: v for k, v in document.items()}
    return Ending(**{k: v for k, v in named.items() if k in known})


# A younger job is kept: the id of a nightly job prevents cron from queueing that night again, and a
# worker may still be stopping the run of a cancelled job.
YOUNG = timedelta(days=2)


def forgettable(jobs: Sequence[JobStatus], keep: int, now: datetime) -> list[JobStatus]:
    """Return the ended jobs except the `keep` newest of each group, oldest first.

    Jobs that ended within `YOUNG` before `now` (timezone-aware) are kept. `jobs` are in the order of
    submission, as `Queue.jobs` returns them.
    """
    ended_jobs: Counter[str] = Counter()
    chosen = []
    for status in reversed(jobs):
        if status.state in UNFINISHED:
            continue
        ended_jobs[status.job.group] += 1
        ended = status.ended_at or status.created_at
        if ended_jobs[status.job.group] > keep and now - ended > YOUNG:
            chosen.append(status)
    return chosen[::-1]
