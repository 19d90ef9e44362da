"""A driver: takes the jobs of its groups off the queue, one at a time in each, and sees to their runs.

It ends in order on SIGTERM, SIGINT or SIGHUP: its runs are stopped (they can be gone on with) and its jobs given back
to the queue. A driver that was killed finds its own jobs again when it starts under the same name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from dbos import DBOS, DBOSConfig
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import OperationalError

from perfrunner.errors import EXIT_INTERRUPTED, EXIT_OK, StoreError
from perfrunner.fleet.child import JobRun, require_tied
from perfrunner.fleet.dbos_queue import (
    APPLICATION,
    ONE_AT_A_TIME,
    VERSION,
    WORKFLOW,
    DbosQueue,
    queue_name,
)
from perfrunner.fleet.drivers import Drivers
from perfrunner.fleet.job import Job, job_of
from perfrunner.fleet.queue import UNFINISHED, Ending, Progress

STEP_S = 0.2
LOOK_S = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def not_reached(context: ExceptionContext) -> None:
    """Of any error of a database: whoever could not reach a server has lost it, whatever the message says.

    DBOS keeps trying to store a job's outcome only where it knows the error for a lost connection, and some of
    psycopg's it does not know (a socket that is gone, a name that does not resolve): such a job would run for ever.
    """
    connecting = context.connection is None and context.dialect.name == "postgresql"
    if connecting and isinstance(context.sqlalchemy_exception, OperationalError):
        context.is_disconnect = True


class Driving:
    """One driver's life in this process. `said` takes a line for each thing that happens."""

    def __init__(
        self, queue: DbosQueue, name: str, groups: Sequence[str], said: Callable[[str], None]
    ) -> None:
        self._queue = queue
        self._name = name
        self._groups = tuple(groups)
        self._said = said
        self._signals = (
            0  # a plain number: a handler that sets an Event may meet its own thread inside it
        )
        self._ending = False
        self._running = 0
        self._counting = threading.Lock()

    def drive(self, *, drain: bool) -> NoReturn:
        """Until a signal ends it, or (`drain`) nothing is left to do in its groups."""
        require_tied()
        with Drivers(self._queue.engine, self._queue.place).present(self._name, self._groups):
            with self._signals_heard():
                self._launch()
                self._said(f"driver {self._name} serves {', '.join(self._groups)}")
                self._wait_for_the_end(drain=drain)
                self._ending = True
                self._wait_for_runs()
            DBOS.destroy(workflow_completion_timeout_sec=0)
            self._give_back()
        self._said(f"driver {self._name} has ended")
        # Threads of jobs that this driver has no longer wait in DBOS for somebody else's outcome: they are left behind.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED if self._signals else EXIT_OK)

    # -- the flow of a job

    def _launch(self) -> None:
        @DBOS.workflow(name=WORKFLOW)
        def run(document: dict[str, Any]) -> dict[str, Any]:
            return dataclasses.asdict(self._carry_out(job_of(document)))

        if not event.contains(Engine, "handle_error", not_reached):
            event.listen(Engine, "handle_error", not_reached)
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._queue.url,
            "application_version": VERSION,
            "executor_id": self._name,
            "log_level": "WARNING",
            "console_log_level": "WARNING",
        }
        DBOS(config=config)
        DBOS.listen_queues([queue_name(group) for group in self._groups])
        DBOS.launch()
        for group in self._groups:
            DBOS.register_queue(queue_name(group), on_conflict="always_update", **ONE_AT_A_TIME)

    def _carry_out(self, job: Job) -> Ending:
        """Its outcome is kept by DBOS only where the job is still this driver's."""
        with self._counted():
            if not self._ending:
                self._said(f"{job.id}: taken")
            run = JobRun(
                job,
                wanted=lambda: not self._stopping and self._is_mine(job),
                hurry=lambda: self._signals > 1,
                tell=lambda progress: self._tell(job, progress),
            )
            ending = run.carry_out()
            if ending is not None:
                said = f": {ending.said}" if ending.said else ""
                self._said(f"{job.id}: {ending.state}{said}")
                return ending
        if self._stopping:  # nothing is told of it: it is given back
            threading.Event().wait()
        self._said(f"{job.id}: stopped, since it was cancelled or given to another driver")
        return Ending(EXIT_INTERRUPTED)

    @property
    def _stopping(self) -> bool:
        return self._ending or self._signals > 0

    def _is_mine(self, job: Job) -> bool:
        """Not when it was cancelled or given back. A database that is away changes nothing."""
        try:
            status = self._queue.job(job.id)
        except StoreError:
            return True
        return status is not None and status.state == "running" and status.driver == self._name

    def _tell(self, job: Job, progress: Progress) -> None:
        if progress.waiting:
            self._said(f"{job.id}: waits: {progress.waiting}")
        with contextlib.suppress(StoreError):  # the next news come through
            self._queue.tell(job.id, progress)

    # -- its end

    def _nothing_left(self) -> bool:
        try:
            jobs = self._queue.jobs()
        except StoreError:
            return False
        return not any(s.job.group in self._groups and s.state in UNFINISHED for s in jobs)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._counting:
            self._running += 1
        try:
            yield
        finally:
            with self._counting:
                self._running -= 1

    def _wait_for_runs(self) -> None:
        while self._running:
            time.sleep(STEP_S)

    def _wait_for_the_end(self, *, drain: bool) -> None:
        look = time.monotonic() + LOOK_S
        while not self._signals:
            time.sleep(STEP_S)
            if drain and time.monotonic() > look:
                if self._nothing_left():
                    return
                look = time.monotonic() + LOOK_S

    def _give_back(self) -> None:
        """What it still has: others may take it at once."""
        try:
            for job_id in self._queue.give_back(self._name):
                self._said(f"{job_id}: queued again")
        except StoreError as error:
            self._said(
                f"its jobs stay its own until it starts again under this name: {error.message}"
            )

    @contextlib.contextmanager
    def _signals_heard(self) -> Iterator[None]:
        """The first one ends it in order; the second one ends its runs at once."""

        def handle(signum: int, frame: FrameType | None) -> None:
            del frame
            again = signum == signal.SIGHUP and self._signals  # a closing terminal says it twice
            self._signals += 0 if again else 1

        before = {signum: signal.signal(signum, handle) for signum in SIGNALS}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
