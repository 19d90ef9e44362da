"""The queue on DBOS: a job is a workflow on the queue of its group, which runs one at a time.

The job, its progress and its ending are attributes of the workflow, which DBOS stores as JSON. A workflow has no
steps: the finished work is in the results store, and repeating it continues there.

A writer to the database must not be able to run code on the machines that read it, so nothing is unpickled:
everything is written as JSON, inputs and outputs are not read, and `refuse_pickle` closes the way that DBOS leaves
open.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus, error
from dbos._serialization import DefaultSerializer
from sqlalchemy import Engine

from perfrunner.errors import EXIT_FAILED, StoreError, UsageError
from perfrunner.fleet.job import (
    Ending,
    Job,
    JobStatus,
    Progress,
    State,
    ending_of,
    job_of,
    progress_of,
)
from perfrunner.results.database import connect, errors_as_ours, transaction
from perfrunner.text import readable

APPLICATION = "perfrunner-fleet"
# Fixed instead of a hash of the code, so that a newer perfrunner runs the jobs of an older one.
VERSION = "1"
WORKFLOW = "run"
TAKEN = "PENDING"
# global_concurrency of the queue does not work: on SQLite, DBOS counts the running jobs and takes one
# in two steps, so two workers can take a job each. For a partition it uses one statement.
ONE_AT_A_TIME: dict[str, Any] = {"partition_concurrency": 1, "polling_interval_sec": 2.0}
_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "lost",
}


# Workflows of a group are written and read as JSON.
SERIALIZER = DBOSPortableJSONSerializer()


def refuse_pickle() -> None:
    """Make DBOS fail, in this process, on a row that names pickle as its serialization.

    DBOS chooses the serializer that a row names, whichever serializer the application configures, and has no option
    against it.
    """

    def refuse(_: DefaultSerializer, serialized_data: str) -> NoReturn:
        del serialized_data
        raise StoreError(
            "the queue holds a pickled row, which is not read because it could run any code",
            "submit the job again; if no older perfrunner wrote it, find out who writes to the queue's database",
        )

    DefaultSerializer.deserialize = refuse  # type: ignore[method-assign, assignment]


def queue_name(group: str) -> str:
    """Return the name of a group's queue; a worker listens to the queues of its groups."""
    return f"group:{group}"


class DbosQueue:
    """A durable queue of jobs in a database, which processes on several machines may use at the same time.

    Each call is one transaction.

    Every method raises StoreError on an error, at once if the database is unavailable.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        refuse_pickle()
        with self._errors():
            DBOS.migrate(self.url)
            self._client = DBOSClient(
                system_database_url=self.url,
                application_name=APPLICATION,
                serializer=SERIALIZER,
                retry_connection_errors=False,
            )

    @classmethod
    def open(cls, database: str, *, create: bool) -> DbosQueue:
        """Open the database of a fleet file. Without `create`, a missing one raises StoreError."""
        logging.getLogger("dbos").setLevel(logging.ERROR)
        if not create and "://" not in database and not Path(database).is_file():
            raise StoreError(
                f"no job was ever submitted: {database} does not exist",
                "submit one with: perfrunner fleet submit SPEC, or name another file with --fleet FILE",
            )
        opened = connect(database, create=True)
        engine, place = opened.engine, opened.place
        with transaction(engine, place):  # raises a readable error if the server is unavailable
            pass
        return cls(engine, place)

    @property
    def url(self) -> str:
        """The URL of the database, with its password."""
        return self.engine.url.render_as_string(hide_password=False)

    def submit(self, job: Job) -> bool:
        """Queue a job; return False, without a change, if its id exists already.

        Raises UsageError for a path that is not UTF-8: another machine cannot read it from a document.
        """
        document = job.document()
        text = json.dumps(document, ensure_ascii=False)
        if readable(text) != text:
            raise UsageError(
                f"{readable(job.spec)}: a job of a fleet needs paths in UTF-8",
                "rename the directory, or submit from another one",
            )
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
                        "attributes": {"job": document},
                    },
                    document,
                )
            except error.DBOSWorkflowIDInUseError:
                return False
        return True

    def jobs(self) -> Sequence[JobStatus]:
        """Return all jobs in the order of submission."""
        with self._errors():
            return [
                _status(workflow)
                for workflow in self._client.list_workflows(
                    name=WORKFLOW, load_input=False, load_output=False
                )
            ]

    def job(self, job_id: str) -> JobStatus | None:
        """Return the job with this id, or None."""
        with self._errors():
            workflows = self._client.list_workflows(
                workflow_ids=[job_id], load_input=False, load_output=False
            )
        return _status(workflows[0]) if workflows else None

    def cancel(self, job_id: str) -> None:
        """Remove a job from the queue; a worker that has it stops its run. An ended job stays."""
        with self._errors():
            self._client.cancel_workflow(job_id)

    def give_back(self, worker: str) -> Sequence[str]:
        """Requeue the jobs of a worker, and return their ids."""
        with self._errors():
            taken = self._client.list_workflows(
                name=WORKFLOW,
                status=TAKEN,
                executor_id=worker,
                load_input=False,
                load_output=False,
            )
            jobs = [_status(workflow).job for workflow in taken]
            for job in jobs:
                self._client.resume_workflow(job.id, queue_name=queue_name(job.group))
        return [job.id for job in jobs]

    def forget(self, job_ids: Sequence[str]) -> None:
        """Delete ended jobs (see `forgettable`)."""
        with self._errors():
            self._client.delete_workflows(list(job_ids))

    def tell(self, job_id: str, progress: Progress) -> None:
        """Store the progress of a job."""
        with self._errors():
            self._client.update_workflow_attributes(
                job_id, {"progress": dataclasses.asdict(progress)}, merge=True
            )

    def finish(self, job_id: str, ending: Ending) -> None:
        """Store how the run of a job ended. The job itself ends when its worker returns."""
        with self._errors():
            self._client.update_workflow_attributes(
                job_id, {"ending": dataclasses.asdict(ending)}, merge=True
            )

    def close(self) -> None:
        """Close the connections to the database."""
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
    if workflow.status in ("SUCCESS", "ERROR"):
        ending = ending_of(attributes.get("ending")) or Ending(
            EXIT_FAILED, message="no outcome is stored: see the worker's log and perfrunner list"
        )
        state = ending.state
    return JobStatus(
        job=job_of(attributes["job"]),
        state=state,
        worker=workflow.executor_id or "",
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
