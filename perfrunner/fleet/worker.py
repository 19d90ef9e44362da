"""A worker: take the jobs of its groups from the queue, one at a time per group, and run them.

On SIGTERM, SIGINT or SIGHUP it stops its runs, which can be resumed, and requeues its jobs. A worker
that was killed takes up its jobs again when it is started with the same name.
"""

from __future__ import annotations

import contextlib
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

from perfrunner.children import tied
from perfrunner.errors import EXIT_INTERRUPTED, EXIT_OK, StoreError
from perfrunner.fleet.child import JobRun
from perfrunner.fleet.job import UNFINISHED, Ending, Job, Progress, job_of, with_store_of
from perfrunner.fleet.queue import (
    APPLICATION,
    ONE_AT_A_TIME,
    SERIALIZER,
    VERSION,
    WORKFLOW,
    DbosQueue,
    queue_name,
)
from perfrunner.fleet.workers import Workers

STEP_S = 0.2
LOOK_S = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def not_reached(context: ExceptionContext) -> None:
    """Mark every failure to connect to a PostgreSQL server as a lost connection.

    DBOS retries storing the outcome of a job only for errors that it recognizes as a lost connection.
    It does not recognize some errors of psycopg (a missing socket, a name that does not resolve), and
    such a job would stay in the state "running".
    """
    connecting = context.connection is None and context.dialect.name == "postgresql"
    if connecting and isinstance(context.sqlalchemy_exception, OperationalError):
        context.is_disconnect = True


class WorkerProcess:
    """A worker in this process. `log` receives a line for each thing that happens.

    `store` is the URL of the fleet file's store, with the password that jobs do not carry.
    """

    def __init__(
        self,
        queue: DbosQueue,
        name: str,
        groups: Sequence[str],
        log: Callable[[str], None],
        store: str | None,
    ) -> None:
        self._queue = queue
        self._store = store
        self._name = name
        self._groups = tuple(groups)
        self._log = log
        # A plain number, because a signal handler that sets an Event may deadlock with its thread.
        self._signals = 0
        self._ending = False
        self._running = 0
        self._counting = threading.Lock()

    def run(self, *, drain: bool) -> NoReturn:
        """Run jobs until a signal arrives or, with `drain`, until the groups have no jobs. Exits."""
        tied()  # before a job is taken
        with Workers(self._queue.engine, self._queue.place).present(self._name, self._groups):
            with self._signals_handled():
                self._launch()
                self._log(f"worker {self._name} serves {', '.join(self._groups)}")
                self._wait_for_end(drain=drain)
                self._ending = True
                self._wait_for_runs()
            DBOS.destroy(workflow_completion_timeout_sec=0)
            self._give_back()
        self._log(f"worker {self._name} has ended")
        # Threads of jobs that other workers took over wait in DBOS for their outcome: abandon them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED if self._signals else EXIT_OK)

    # -- running jobs

    def _launch(self) -> None:
        @DBOS.workflow(name=WORKFLOW)
        def run(document: dict[str, Any]) -> None:
            self._carry_out(with_store_of(job_of(document), self._store))

        if not event.contains(Engine, "handle_error", not_reached):
            event.listen(Engine, "handle_error", not_reached)
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._queue.url,
            "application_version": VERSION,
            "executor_id": self._name,
            "serializer": SERIALIZER,
            "log_level": "WARNING",
            "console_log_level": "WARNING",
        }
        DBOS(config=config)
        DBOS.listen_queues([queue_name(group) for group in self._groups])
        DBOS.launch()
        for group in self._groups:
            DBOS.register_queue(queue_name(group), on_conflict="always_update", **ONE_AT_A_TIME)

    def _carry_out(self, job: Job) -> None:
        """Run a job and store its ending, unless the job is no longer this worker's."""
        with self._counted():
            if not self._ending:
                self._log(f"{job.id}: started")
            run = JobRun(
                job,
                wanted=lambda: not self._stopping and self._is_mine(job),
                hurry=lambda: self._signals > 1,
                tell=lambda progress: self._tell(job, progress),
            )
            ending = run.carry_out()
            if ending is not None:
                message = f": {ending.message}" if ending.message else ""
                self._log(f"{job.id}: {ending.state}{message}")
                if self._finish(job, ending):
                    return
        if self._stopping:  # block, so that DBOS stores no result: the job is requeued
            threading.Event().wait()
        self._log(f"{job.id}: stopped, because it was cancelled or given to another worker")

    def _finish(self, job: Job, ending: Ending) -> bool:
        """Store the ending, and wait while the database is away; False if another worker has the job."""
        while self._is_mine(job):
            try:
                self._queue.finish(job.id, ending)
            except StoreError:
                if self._stopping:  # the next worker reads the ending from the run's journal
                    return False
                time.sleep(LOOK_S)
            else:
                return True
        return False

    @property
    def _stopping(self) -> bool:
        return self._ending or self._signals > 0

    def _is_mine(self, job: Job) -> bool:
        """Return whether this worker still has the job; assume so while the database is away."""
        try:
            status = self._queue.job(job.id)
        except StoreError:
            return True
        return status is not None and status.state == "running" and status.worker == self._name

    def _tell(self, job: Job, progress: Progress) -> None:
        if progress.waiting:
            self._log(f"{job.id}: waiting: {progress.waiting}")
        with contextlib.suppress(StoreError):  # the next report will get through
            self._queue.tell(job.id, progress)

    # -- stopping

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

    def _wait_for_end(self, *, drain: bool) -> None:
        look = time.monotonic() + LOOK_S
        while not self._signals:
            time.sleep(STEP_S)
            if drain and time.monotonic() > look:
                if self._nothing_left():
                    return
                look = time.monotonic() + LOOK_S

    def _give_back(self) -> None:
        """Requeue the jobs that this worker still has."""
        try:
            for job_id in self._queue.give_back(self._name):
                self._log(f"{job_id}: requeued")
        except StoreError as error:
            self._log(
                f"could not requeue the jobs of {self._name}: {error.message}"
                f" (start it again with the same name, or run: perfrunner fleet recover {self._name})"
            )

    @contextlib.contextmanager
    def _signals_handled(self) -> Iterator[None]:
        """Count signals: the first one stops the worker cleanly, the second one stops runs at once."""

        def handle(signum: int, frame: FrameType | None) -> None:
            del frame
            again = signum == signal.SIGHUP and self._signals  # a closing terminal sends two
            self._signals += 0 if again else 1

        before = {signum: signal.signal(signum, handle) for signum in SIGNALS}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
