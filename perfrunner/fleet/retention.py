"""Which jobs a queue may forget: what was measured is in the results, a job only says how it came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from perfrunner.fleet.queue import UNFINISHED, JobStatus

# The id of a night's job keeps cron from queueing that night again, and a driver may still be stopping the run of a
# job that was cancelled.
YOUNG = timedelta(days=2)


def forgettable(jobs: Sequence[JobStatus], keep: int, now: datetime) -> list[JobStatus]:
    """The ended jobs beside the `keep` newest of each group, oldest first; none that ended within `YOUNG` before `now`.

    `jobs` in the order of submission, as `Queue.jobs` gives them; `now` is aware.
    """
    kept: Counter[str] = Counter()
    chosen = []
    for status in reversed(jobs):
        if status.state in UNFINISHED:
            continue
        kept[status.job.group] += 1
        ended = status.ended_at or status.created_at
        if kept[status.job.group] > keep and now - ended > YOUNG:
            chosen.append(status)
    return chosen[::-1]
