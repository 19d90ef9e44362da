"""What `perfrunner fleet status` shows: jobs and drivers, as tables and as documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perfrunner.cli.output import duration, note, result_console

if TYPE_CHECKING:
    from perfrunner.fleet.drivers import Driver
    from perfrunner.fleet.queue import JobStatus


def print_jobs(jobs: Sequence[JobStatus], now: float) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not jobs:
        note("no job is queued")
        return
    table = Table("job", "group", "state", "trials", "left", "driver", "for", "", box=None)
    for status in jobs:
        left = status.progress.left_at(now) if status.state == "running" else None
        words = (
            status.job.id,
            status.job.group,
            "waiting" if _waits(status) else status.state,
            _trials(status),
            "" if left is None else duration(left),
            status.driver if status.state != "queued" else "",
            duration(_seconds(status, now)),
            _remark(status),
        )
        table.add_row(*map(escape, words))
    result_console().print(table)


def print_drivers(drivers: Sequence[Driver], now: float) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("driver", "machine", "groups", "seen", box=None)
    for driver in drivers:
        seen = "ended" if driver.ended_at else f"{duration(now - driver.seen_at)} ago"
        table.add_row(*map(escape, (driver.name, driver.host, ", ".join(driver.groups), seen)))
    if drivers:
        result_console().print()
        result_console().print(table)
    else:
        note("no driver: perfrunner fleet workers")


def _waits(status: JobStatus) -> bool:
    return status.state == "running" and bool(status.progress.waiting)


def _trials(status: JobStatus) -> str:
    finished, total = status.progress.finished, status.progress.total
    return "" if finished is None else f"{finished}/{total}"


def _seconds(status: JobStatus, now: float) -> float:
    """How long it is queued, how long it runs, or how long it ran."""
    start = status.started_at or status.created_at
    end = now if status.ended_at is None else status.ended_at.timestamp()
    return max(end - start.timestamp(), 0.0)


def _remark(status: JobStatus) -> str:
    if status.ending is not None:
        return status.ending.said
    return status.progress.waiting if status.state == "running" else ""


def job_document(status: JobStatus, now: float) -> dict[str, Any]:
    ended = status.ending
    return {
        "job": status.job.id,
        "spec": status.job.spec,
        "name": status.job.name,
        "group": status.job.group,
        "night": status.job.night,
        "priority": status.job.priority,
        "state": status.state,
        "driver": status.driver or None,
        "experiment": (ended.experiment if ended else status.progress.experiment) or None,
        "out": status.job.out,
        "trials": {"finished": status.progress.finished, "total": status.progress.total},
        "seconds_left": status.progress.left_at(now) if status.state == "running" else None,
        "waiting": status.progress.waiting or None if status.state == "running" else None,
        "exit_code": ended.code if ended else None,
        "said": ended.said or None if ended else None,
        "created_at": status.created_at.isoformat(timespec="seconds"),
        "started_at": _iso(status.started_at),
        "ended_at": _iso(status.ended_at),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


def driver_document(driver: Driver, now: float) -> dict[str, Any]:
    return {
        "driver": driver.name,
        "machine": driver.host,
        "pid": driver.process.pid,
        "groups": list(driver.groups),
        "seen_seconds_ago": round(now - driver.seen_at, 1),
        "ended": driver.ended_at is not None,
        "drives": driver.may_live(now),
    }
