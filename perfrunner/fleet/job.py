"""A job of the fleet: one spec on one group, as arguments of `perfrunner run`, and its state in the queue."""

from __future__ import annotations

import dataclasses
import secrets
import zoneinfo
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perfrunner.domain import known_fields
from perfrunner.errors import EXIT_OK, EXIT_VERDICT, UsageError
from perfrunner.fleet.file import NORMAL_PRIORITY, Group
from perfrunner.paths import real_path
from perfrunner.results.database import without_password

if TYPE_CHECKING:
    from perfrunner.spec.model import Spec


@dataclass(frozen=True)
class Job:
    """A run in the queue. Paths are absolute, since a worker may run on another machine that shares them.

    `measured` are the options that define the measurement; a resumed run has them already. `always`
    are the options of every call. Relative paths in options start from `directory`, where the job
    was submitted. `store` is a URL, or None for the store in `out`. A lower `priority` runs first.
    """

    id: str
    name: str  # the spec's name
    spec: str
    group: str
    cluster: str
    out: str
    directory: str
    measured: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    priority: int = NORMAL_PRIORITY
    night: str | None = None
    store: str | None = None  # URL without its password, which the fleet file of the worker has

    def run_args(self) -> list[str]:
        """Return the arguments that start the run."""
        args = ["run", self.spec, "--cluster", self.cluster, *self.measured]
        return [*args, "--out", self.out, *self.always]

    def resume_args(self, experiment: str) -> list[str]:
        """Return the arguments that resume the run, which do not depend on the spec file."""
        return ["run", "--resume", experiment, "--out", self.out, *self.always]

    def document(self) -> dict[str, Any]:
        """Return the job as a JSON document, which `job_of` reads."""
        return dataclasses.asdict(self)


def job_of(document: dict[str, Any]) -> Job:
    """Read a job's document; fields that this version does not know are ignored."""
    values = known_fields(Job, document)
    for key in ("measured", "always"):
        values[key] = tuple(values.get(key, ()))
    return Job(**values)


def with_store_of(job: Job, url: str | None) -> Job:
    """Return the job with the store `url` of the worker's fleet file, password included, if it names that store.

    A job itself has no password: everybody who may look at the queue can read its jobs.
    """
    if job.store is None or url is None or without_password(job.store) != without_password(url):
        return job
    return dataclasses.replace(job, store=url)


def fresh_id(name: str, group: str) -> str:
    """Return a new id for a submitted job; a random suffix keeps it unique."""
    now = datetime.now(timezone.utc)
    return f"{name}-{group}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def new_job(
    spec: Spec,
    path: Path,
    group: Group,
    *,
    measured: Sequence[str],
    always: Sequence[str],
    night: date | None,
    store: str | None,
) -> Job:
    """Return a job that runs a spec on a group; with `night`, the same one for every call of that night."""
    return Job(
        id=night_id(spec.name, group.name, night) if night else fresh_id(spec.name, group.name),
        name=spec.name,
        spec=str(real_path(path)),
        group=group.name,
        cluster=group.cluster,
        out=str(group.out),
        directory=str(Path.cwd()),
        measured=tuple(measured),
        always=tuple(always),
        night=str(night) if night else None,
        store=None if store is None else without_password(store),
    )


def night_id(name: str, group: str, night: date) -> str:
    """Return the id of a nightly job, which is the same for every attempt to submit it."""
    return f"{name}-{group}-night-{night:%Y%m%d}"


NOON = timedelta(hours=12)


def night_of(moment: datetime, timezone: str | None) -> date:
    """Return the day on which the night of a moment began.

    A night lasts from noon to noon, so that 23:50 and 00:10 belong to the same night. `moment` is
    timezone-aware. The default time zone is that of this machine.
    """
    zone = None if timezone is None else zoneinfo.ZoneInfo(timezone)
    return (moment.astimezone(zone).replace(tzinfo=None) - NOON).date()


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


def find(jobs: Sequence[JobStatus], reference: str) -> JobStatus:
    """Return the job with an id or a unique start of one. Raises UsageError."""
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
    return Progress(**known_fields(Progress, document or {}))


def ending_of(document: Mapping[str, Any] | None) -> Ending | None:
    """Return the ending that `dataclasses.asdict` wrote, without the fields of a newer perfrunner.

    An older one has its message under `said`.
    """
    if document is None:
        return None
    named = {"message" if k == "said" else k: v for k, v in document.items()}
    return Ending(**known_fields(Ending, named))


def unfinished_twin(job: Job, jobs: Sequence[JobStatus]) -> Job | None:
    """Return the unfinished job of another night for the same spec and group, if any: nights do not pile up."""
    return next(
        (
            status.job
            for status in jobs
            if status.state in UNFINISHED and job.night and status.job.night
            if status.job.id != job.id
            if (status.job.name, status.job.group) == (job.name, job.group)
        ),
        None,
    )


# A younger job is kept: the id of a nightly job prevents cron from queueing that night again, and a
# worker may still be stopping the run of a cancelled job.
YOUNG = timedelta(days=2)


def forgettable(jobs: Sequence[JobStatus], keep: int, now: datetime) -> list[JobStatus]:
    """Return the ended jobs except the `keep` newest of each group, oldest first.

    Jobs that ended within `YOUNG` before `now` (timezone-aware) are kept. `jobs` are in the order of
    submission, as `DbosQueue.jobs` returns them.
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
