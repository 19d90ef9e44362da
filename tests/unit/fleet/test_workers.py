"""Who drives: one worker of a name, distinguished from one that died, and from one that is only silent."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from perfrunner.errors import UsageError
from perfrunner.fleet import workers
from perfrunner.fleet.workers import SILENT_S, Workers, this_process
from perfrunner.hosts.process import ProcessId
from perfrunner.results.database import connect


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(tmp_path / "fleet.sqlite", create=True).engine
    yield engine
    engine.dispose()


@pytest.fixture
def known(engine: Engine) -> Workers:
    return Workers(engine, "here")


def change(engine: Engine, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(update(workers.table).values(**values))


def test_a_worker_is_there_until_it_says_goodbye(known: Workers) -> None:
    with known.present("east", ["a", "b"]):
        (worker,) = known.all()
        assert (worker.groups, worker.process) == (("a", "b"), this_process())
        assert worker.may_live(time.time())
    (worker,) = known.all()
    assert not worker.may_live(time.time())


def test_a_second_one_of_a_name_is_refused(known: Workers) -> None:
    with (
        known.present("east", ["a"]),
        pytest.raises(UsageError, match="there is a worker east already"),
        known.present("east", ["b"]),
    ):
        pass
    with known.present("east", ["b"]):
        assert [d.groups for d in known.all()] == [("b",)]


def test_a_worker_that_was_killed_is_succeeded_at_once(known: Workers, engine: Engine) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with known.present("east", ["a"]):
        change(engine, **dataclasses.asdict(dataclasses.replace(this_process(), pid=dead.pid)))
        with known.present("east", ["a"]):
            assert [d.process for d in known.all()] == [this_process()]


def test_of_another_machines_worker_silence_is_all_that_tells(
    known: Workers, engine: Engine
) -> None:
    elsewhere = ProcessId(1, 1, "another boot")
    now = time.time()
    with known.present("east", ["a"]):
        change(engine, **dataclasses.asdict(elsewhere))
        (worker,) = known.all()
        assert worker.may_live(now + SILENT_S - 1)
        assert not worker.may_live(now + SILENT_S + 5)


def test_so_it_is_of_another_container_of_this_machine(known: Workers, engine: Engine) -> None:
    now = time.time()
    with known.present("east", ["a"]):
        change(engine, host="a-container", pid=2**22 + 1)
        (worker,) = known.all()
        assert worker.may_live(now + SILENT_S - 1)
        assert not worker.may_live(now + SILENT_S + 5)


def test_a_frozen_worker_of_this_machine_is_no_dead_one(known: Workers, engine: Engine) -> None:
    with known.present("east", ["a"]):
        change(engine, seen_at=time.time() - 10 * SILENT_S)
        (worker,) = known.all()
        assert worker.is_silent(time.time())
        assert worker.may_live(time.time())
