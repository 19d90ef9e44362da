"""The jobs and workers of `perfrunner fleet status`, as tables and as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli.output import duration, note, print_table

if TYPE_CHECKING:
    from perfrunner.fleet.job import JobStatus
    from perfrunner.fleet.workers import Worker


def print_jobs(jobs: Sequence[JobStatus], now: float) -> None:
    """Print a table of jobs; `now` is in seconds since the epoch."""
    if not jobs:
        note("the queue has no jobs")
        return
    rows = []
    for status in jobs:
        left = status.progress.left_at(now) if status.state == "running" else None
        rows.append(
            (
                status.job.id,
                status.job.group,
                "waiting" if _waits(status) else status.state,
                _trials(status),
                "" if left is None else duration(left),
                status.worker if status.state != "queued" else "",
                duration(_seconds(status, now)),
                _remark(status),
            )
        )
    columns = ("job", "group", "state", "trials", "left", "worker", "duration", "remark")
    print_table(columns, rows)


def print_workers(workers: Sequence[Worker], now: float) -> None:
    """Print a table of workers; `now` is the time of Workers.now."""
    rows = []
    for worker in workers:
        seen = "ended" if worker.ended_at else f"{duration(now - worker.seen_at)} ago"
        rows.append((worker.name, worker.host, ", ".join(worker.groups), seen))
    if rows:
        click.echo()
        print_table(("worker", "machine", "groups", "last seen"), rows)
    else:
        note("no worker was ever started; start one with: perfrunner fleet workers")


def _waits(status: JobStatus) -> bool:
    return status.state == "running" and bool(status.progress.waiting)


def _trials(status: JobStatus) -> str:
    finished, total = status.progress.finished, status.progress.total
    return "" if finished is None else f"{finished}/{total}"


def _seconds(status: JobStatus, now: float) -> float:
    """Return the seconds for which a job has been queued or running, or for which it ran."""
    start = status.started_at or status.created_at
    end = now if status.ended_at is None else status.ended_at.timestamp()
    return max(end - start.timestamp(), 0.0)


def _remark(status: JobStatus) -> str:
    if status.ending is not None:
        return status.ending.message
    return status.progress.waiting if status.state == "running" else ""


def job_document(status: JobStatus, now: float) -> dict[str, Any]:
    """Return the JSON document of a job."""
    ended = status.ending
    return {
        "job": status.job.id,
        "spec": status.job.spec,
        "name": status.job.name,
        "group": status.job.group,
        "night": status.job.night,
        "priority": status.job.priority,
        "state": status.state,
        "worker": status.worker or None,
        "experiment": (ended.experiment if ended else status.progress.experiment) or None,
        "out": status.job.out,
        "trials": {"finished": status.progress.finished, "total": status.progress.total},
        "seconds_left": status.progress.left_at(now) if status.state == "running" else None,
        "waiting": status.progress.waiting or None if status.state == "running" else None,
        "exit_code": ended.code if ended else None,
        "message": ended.message or None if ended else None,
        "created_at": status.created_at.isoformat(timespec="seconds"),
        "started_at": _iso(status.started_at),
        "ended_at": _iso(status.ended_at),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


def worker_document(worker: Worker, now: float) -> dict[str, Any]:
    """Return the JSON document of a worker."""
    return {
        "worker": worker.name,
        "machine": worker.host,
        "pid": worker.process.pid,
        "groups": list(worker.groups),
        "seen_seconds_ago": round(now - worker.seen_at, 1),
        "ended": worker.ended_at is not None,
        "may_live": worker.may_live(now),
    }
