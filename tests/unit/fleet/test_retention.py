"""Which jobs are old enough to be forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from perfrunner.fleet.job import Job, JobStatus, State, forgettable

NOW = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)


def status(
    name: str, state: State = "done", group: str = "a", *, age_days: float = 9, took_days: float = 0
) -> JobStatus:
    job = Job(id=name, name="s", spec="/s", group=group, cluster="c", out="/o", directory="/")
    created = NOW - timedelta(days=age_days)
    unfinished = state in ("queued", "running")
    ended = None if unfinished else created + timedelta(days=took_days)
    return JobStatus(job, state, "east", created, created, ended)


def ids(jobs: list[JobStatus], keep: int) -> list[str]:
    return [s.job.id for s in forgettable(jobs, keep, NOW)]


def test_the_newest_ended_jobs_of_each_group_stay() -> None:
    jobs = [status(f"{group}{n}", group=group) for n in range(4) for group in "ab"]
    assert ids(jobs, 3) == ["a0", "b0"]
    assert ids(jobs, 1) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert ids(jobs, 4) == []


def test_what_waits_or_runs_stays_and_takes_no_place() -> None:
    jobs = [
        status("old", "failed"), status("lost", "lost"), status("worse", "worse"),
        status("waits", "queued"), status("runs", "running"),
    ]  # fmt: skip
    assert ids(jobs, 1) == ["old", "lost"]
    assert ids(jobs, 0) == ["old", "lost", "worse"]


def test_a_job_that_ended_lately_stays_however_old_it_is() -> None:
    """It waited for a week, and its worker may still be stopping its run."""
    jobs = [status("cancelled", "cancelled", age_days=9, took_days=8), status("old", "cancelled")]
    assert ids(jobs, 0) == ["old"]


def test_without_an_end_its_submission_counts() -> None:
    endless = replace(status("lost", "lost", age_days=9), ended_at=None)
    assert ids([endless, replace(endless, created_at=NOW)], 0) == ["lost"]
