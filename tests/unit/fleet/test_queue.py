"""The queue on a file; tests/integration/fleet/test_postgresql.py runs the same on a server."""

from __future__ import annotations

import base64
import json
import pickle
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from perfrunner.errors import StoreError, UsageError
from perfrunner.fleet.job import Ending, Job, Progress, find
from perfrunner.fleet.queue import DbosQueue


def job(name: str = "one", **changes: object) -> Job:
    made = Job(
        id=name, name="s", spec="/s.yaml", group="g", cluster="local", out="/out", directory="/",
        measured=("--set", "blocks=3"),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[DbosQueue]:
    opened = DbosQueue.open(str(tmp_path / "fleet.sqlite"), create=True)
    yield opened
    opened.close()


def test_a_job_waits_as_it_was_submitted(queue: DbosQueue) -> None:
    assert queue.submit(job(priority=7))
    (status,) = queue.jobs()
    assert status.job == job(priority=7)
    assert (status.state, status.worker, status.started_at, status.ended_at) == (
        "queued", "", None, None,
    )  # fmt: skip
    assert status.progress == Progress()
    assert queue.job("one") == status
    assert queue.job("other") is None


def test_an_id_is_queued_once_however_many_try_at_a_time(queue: DbosQueue) -> None:
    at_once = threading.Barrier(4)
    fresh: list[bool] = []

    def submit(priority: int) -> None:
        at_once.wait(300)
        fresh.append(queue.submit(job("night", priority=priority)))

    threads = [threading.Thread(target=submit, args=(n + 1,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(fresh) == [False, False, False, True]
    assert len(queue.jobs()) == 1
    assert not queue.submit(job("night")), "neither is it later"


def test_a_cancelled_job_keeps_what_it_was(queue: DbosQueue) -> None:
    queue.submit(job())
    queue.tell("one", Progress("s-1", 3, 8, 20.0, at=100.0))
    queue.cancel("one")
    (status,) = queue.jobs()
    assert (status.state, status.job) == ("cancelled", job())
    assert status.progress == Progress("s-1", 3, 8, 20.0, at=100.0)
    assert status.ended_at is not None
    assert not queue.submit(job()), "its id is not free again"


def test_a_forgotten_job_is_as_if_it_had_never_been(queue: DbosQueue) -> None:
    for name in ("one", "two", "three"):
        queue.submit(job(name))
    queue.tell("one", Progress("s-1", 3, 8, 20.0, at=100.0))
    queue.cancel("one")
    queue.forget(["one", "three", "not there"])
    assert [status.job.id for status in queue.jobs()] == ["two"]
    assert queue.job("one") is None
    assert queue.submit(job("one")), "its id is free again"
    assert queue.jobs()[-1].progress == Progress()


def test_a_worker_without_jobs_gives_none_back(queue: DbosQueue) -> None:
    queue.submit(job())
    assert queue.give_back("nobody") == []
    assert queue.jobs()[0].state == "queued"


def test_a_job_is_found_by_the_start_of_its_id(queue: DbosQueue) -> None:
    for name in ("s-a-1", "s-a-12", "s-b-1"):
        queue.submit(job(name))
    assert find(queue.jobs(), "s-b").job.id == "s-b-1"
    assert find(queue.jobs(), "s-a-1").job.id == "s-a-1", "a whole id is no start"
    with pytest.raises(UsageError, match="start of several jobs: s-a-1, s-a-12"):
        find(queue.jobs(), "s-a")
    with pytest.raises(UsageError, match=r"no job 's-c-1' \(did you mean s-"):
        find(queue.jobs(), "s-c-1")


def test_time_left_runs_on_between_two_news() -> None:
    assert Progress(seconds_left=20.0, at=100.0).left_at(105.0) == 15.0
    assert Progress(seconds_left=20.0, at=100.0).left_at(900.0) == 0.0
    assert Progress().left_at(900.0) is None


def test_a_file_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    place = tmp_path / "none.sqlite"
    with pytest.raises(StoreError, match="no job was ever submitted"):
        DbosQueue.open(str(place), create=False)
    assert not place.exists()


class Touch:
    """An object whose unpickling creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def inject(database: Path, **columns: str | None) -> None:
    """Overwrite columns of every job, as anybody can who may write to the database."""
    names = ", ".join(f"{name} = ?" for name in columns)
    with closing(sqlite3.connect(database)) as connection, connection:
        changed = connection.execute(
            f"UPDATE workflow_status SET {names}",
            tuple(columns.values()),
        )
        assert changed.rowcount > 0


@pytest.mark.parametrize("column", ["output", "error", "inputs"])
@pytest.mark.parametrize("named", ["py_pickle", None])
def test_a_pickle_in_the_database_does_not_run(
    queue: DbosQueue, tmp_path: Path, column: str, named: str | None
) -> None:
    queue.submit(job())
    ran = tmp_path / "ran"
    payload = base64.b64encode(pickle.dumps(Touch(ran))).decode()
    status = {"output": "SUCCESS", "error": "ERROR", "inputs": "PENDING"}[column]
    inject(
        tmp_path / "fleet.sqlite",
        **{column: payload, "serialization": named, "status": status, "executor_id": "west"},
    )
    assert [status.job for status in queue.jobs()] == [job()]
    results = queue.job("one")
    assert results is not None
    assert results.job == job()
    queue.give_back("west")
    assert not ran.exists()


def test_no_row_is_written_as_a_pickle(queue: DbosQueue, tmp_path: Path) -> None:
    queue.submit(job())
    with closing(sqlite3.connect(tmp_path / "fleet.sqlite")) as connection:
        ((named,),) = connection.execute("SELECT serialization FROM workflow_status").fetchall()
        ((inputs,),) = connection.execute("SELECT inputs FROM workflow_input").fetchall()
    assert named == "portable_json"
    assert json.loads(inputs)["positionalArgs"] == [
        job().document() | {"measured": ["--set", "blocks=3"], "always": []}
    ]


def test_dbos_refuses_to_unpickle_once_a_queue_is_open(queue: DbosQueue, tmp_path: Path) -> None:
    """The worker's side: DBOS reads a row as a pickle if the row says so, whatever serializer it is given."""
    from dbos._serialization import DBOSPortableJSON, deserialize_args

    del queue
    ran = tmp_path / "ran"
    payload = base64.b64encode(pickle.dumps(Touch(ran))).decode()
    with pytest.raises(StoreError, match="pickle"):
        deserialize_args(payload, "py_pickle", DBOSPortableJSON)
    assert not ran.exists()


def test_the_ending_of_a_job_is_read_from_its_attributes(queue: DbosQueue, tmp_path: Path) -> None:
    queue.submit(job())
    queue.tell("one", Progress("s-1", 3, 8, 20.0, at=100.0))
    queue.finish("one", Ending(1, "s-1", "worse"))
    inject(tmp_path / "fleet.sqlite", status="SUCCESS")
    (status,) = queue.jobs()
    assert status.ending == Ending(1, "s-1", "worse")
    assert status.state == "worse"
    assert status.progress.finished == 3, "the progress stays"


def test_a_job_that_ended_without_an_ending_counts_as_failed(
    queue: DbosQueue, tmp_path: Path
) -> None:
    queue.submit(job())
    inject(tmp_path / "fleet.sqlite", status="SUCCESS")
    (status,) = queue.jobs()
    assert status.state == "failed"
    assert status.ending is not None
    assert "no outcome is stored" in status.ending.message
