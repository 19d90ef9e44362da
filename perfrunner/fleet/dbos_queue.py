"""The queue on DBOS: a job is a workflow on the queue of its group, of which one runs at a time.

The job itself and its progress are attributes of the workflow, since a cancelled one forgets its queue. A workflow
has no steps: what was done of it is in the results store, and doing it again goes on from there.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSClient, WorkflowStatus, error
from sqlalchemy import Engine

from perfrunner.errors import EXIT_FAILED, StoreError
from perfrunner.fleet.job import Job, job_of
from perfrunner.fleet.queue import Ending, JobStatus, Progress, State, progress_of
from perfrunner.results.database import connect, errors_as_ours, transaction

APPLICATION = "perfrunner-fleet"
# Fixed, and not the hash of the code: a driver of a new perfrunner takes up what an older one queued.
VERSION = "1"
WORKFLOW = "run"
TAKEN = "PENDING"
# A limit of the queue (global_concurrency) would not do: on SQLite DBOS counts and takes in two steps there, so that
# two drivers take a job each. Of a partition it looks for a job and for what runs in one statement.
ONE_AT_A_TIME: dict[str, Any] = {"partition_concurrency": 1, "polling_interval_sec": 2.0}
_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "CANCELLED": "cancelled",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "lost",
}


def queue_name(group: str) -> str:
    """A queue a group: a driver listens to those of its own groups."""
    return f"group:{group}"


class DbosQueue:
    """Its errors are StoreErrors. Every call is one transaction; where the database is away it fails at once."""

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        with self._errors():
            DBOS.migrate(self.url)
            self._client = DBOSClient(
                system_database_url=self.url,
                application_name=APPLICATION,
                retry_connection_errors=False,
            )

    @classmethod
    def open(cls, database: str, *, create: bool) -> DbosQueue:
        """Of a fleet file's database. Without `create` one that is not there yet is a StoreError."""
        logging.getLogger("dbos").setLevel(logging.ERROR)
        if not create and "://" not in database and not Path(database).is_file():
            raise StoreError(
                f"no job was ever submitted: {database} does not exist",
                "perfrunner fleet submit SPEC, or name another fleet file with --fleet",
            )
        opened = connect(database, create=True)
        engine, place = opened.engine, opened.place
        with transaction(engine, place):  # a server that is away says so in a sentence
            pass
        return cls(engine, place)

    @property
    def url(self) -> str:
        return self.engine.url.render_as_string(hide_password=False)

    def submit(self, job: Job) -> bool:
        with self._errors():
            self._client.register_queue(queue_name(job.group), **ONE_AT_A_TIME)
            try:
                self._client.enqueue(
                    {
                        "workflow_name": WORKFLOW,
                        "queue_name": queue_name(job.group),
                        "workflow_id": job.id,
                        "workflow_id_reuse_policy": "reject",
                        "app_version": VERSION,
                        "queue_partition_key": job.group,
                        "priority": job.priority,
                        "attributes": {"job": job.document()},
                    },
                    job.document(),
                )
            except error.DBOSWorkflowIDInUseError:
                return False
        return True

    def jobs(self) -> Sequence[JobStatus]:
        with self._errors():
            return [
                _status(w) for w in self._client.list_workflows(name=WORKFLOW, load_input=False)
            ]

    def job(self, job_id: str) -> JobStatus | None:
        with self._errors():
            found = self._client.list_workflows(workflow_ids=[job_id], load_input=False)
        return _status(found[0]) if found else None

    def cancel(self, job_id: str) -> None:
        with self._errors():
            self._client.cancel_workflow(job_id)

    def give_back(self, driver: str) -> Sequence[str]:
        with self._errors():
            taken = self._client.list_workflows(
                name=WORKFLOW, status=TAKEN, executor_id=driver, load_input=False
            )
            jobs = [_status(workflow).job for workflow in taken]
            for job in jobs:
                self._client.resume_workflow(job.id, queue_name=queue_name(job.group))
        return [job.id for job in jobs]

    def forget(self, job_ids: Sequence[str]) -> None:
        with self._errors():
            self._client.delete_workflows(list(job_ids))

    def tell(self, job_id: str, progress: Progress) -> None:
        with self._errors():
            self._client.update_workflow_attributes(
                job_id, {"progress": dataclasses.asdict(progress)}, merge=True
            )

    def close(self) -> None:
        self._client.destroy()
        self.engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with errors_as_ours(self.place):
            yield


def _status(workflow: WorkflowStatus) -> JobStatus:
    attributes = workflow.attributes or {}
    ending = None
    state = _STATES.get(workflow.status, "failed")
    if workflow.status == "SUCCESS":
        ending = Ending(**dict(workflow.output or {}))
        state = ending.state
    elif workflow.status == "ERROR":
        ending = Ending(EXIT_FAILED, said=str(workflow.error))
    return JobStatus(
        job=job_of(attributes["job"]),
        state=state,
        driver=workflow.executor_id or "",
        created_at=_time(workflow.created_at) or datetime.now(timezone.utc),
        started_at=_time(workflow.dequeued_at) if state != "queued" else None,
        ended_at=_time(workflow.completed_at),
        progress=progress_of(attributes.get("progress")),
        ending=ending,
    )


def _time(milliseconds: int | None) -> datetime | None:
    return (
        None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    )
