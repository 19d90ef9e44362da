"""A job: one spec on one group, as the arguments with which a worker calls `perfrunner run`; and its night."""

from __future__ import annotations

import dataclasses
import secrets
import zoneinfo
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from perfrunner.fleet.file import NORMAL_PRIORITY
from perfrunner.results.database import without_password


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
    known = {field.name for field in dataclasses.fields(Job)}
    values = {key: value for key, value in document.items() if key in known}
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
