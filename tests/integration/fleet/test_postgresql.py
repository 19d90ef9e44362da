"""The queue on a real PostgreSQL: what holds for a file holds for a server, and for one that goes away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from perfrunner.errors import StoreError
from perfrunner.fleet import workers
from perfrunner.fleet.queue import DbosQueue
from perfrunner.fleet.workers import Workers
from tests.integration.fleet.test_fleet import SLOW
from tests.integration.postgres import PASSWORD, Postgres, raised_postgres
from tests.support.fleetlab import PATIENCE_S, FleetLab
from tests.unit.fleet.test_queue import (
    job,
    test_a_cancelled_job_keeps_what_it_was,
    test_a_forgotten_job_is_as_if_it_had_never_been,
    test_a_job_is_found_by_the_start_of_its_id,
    test_a_job_waits_as_it_was_submitted,
    test_a_worker_without_jobs_gives_none_back,
    test_an_id_is_queued_once_however_many_try_at_a_time,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

# The same tests as of a file, with this module's `queue`.
__all__ = [
    "test_a_cancelled_job_keeps_what_it_was",
    "test_a_forgotten_job_is_as_if_it_had_never_been",
    "test_a_job_is_found_by_the_start_of_its_id",
    "test_a_job_waits_as_it_was_submitted",
    "test_a_worker_without_jobs_gives_none_back",
    "test_an_id_is_queued_once_however_many_try_at_a_time",
]

AWAY_S = 20.0


@pytest.fixture
def lab(lab: FleetLab, server: Postgres) -> FleetLab:
    """Its queue is on the server."""
    lab.database = server.new_database()
    return lab


@pytest.fixture
def queue(server: Postgres) -> Iterator[DbosQueue]:
    opened = DbosQueue.open(server.new_database(), create=True)
    yield opened
    opened.close()


def test_a_server_that_is_away_is_reported_in_a_sentence(server: Postgres) -> None:
    url = server.new_database()
    queue = DbosQueue.open(url, create=True)
    queue.submit(job())
    server.stop()
    try:
        with pytest.raises(StoreError) as cut:
            queue.jobs()
        with pytest.raises(StoreError) as refused:
            DbosQueue.open(url, create=False)
    finally:
        server.start()
        queue.close()
    for caught in (cut, refused):
        assert PASSWORD not in str(caught.value)
        assert "postgresql" in str(caught.value)


def test_a_worker_whose_clock_is_slow_is_alive(
    queue: DbosQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker and who asks for it have in common is the server's clock."""
    known = Workers(queue.engine, queue.place)
    slow = SimpleNamespace(time=lambda: time.time() - 300)
    with monkeypatch.context() as patch:
        patch.setattr(workers, "time", slow)
        driving = known.present("east", ["a"])
        driving.__enter__()
    try:
        with queue.engine.begin() as connection:
            connection.execute(update(workers.table).values(host="another"))
        (worker,) = known.all()
        assert worker.may_live(known.now())
    finally:
        driving.__exit__(None, None, None)


@pytest.mark.long
def test_two_workers_and_three_groups_outlive_a_database_that_is_away(
    server: Postgres, lab: FleetLab
) -> None:
    """Runs begin before, end in the meantime and go on after; each trial is measured once, each run begun once."""
    lab.write("abc", blocks=9, variants=SLOW)
    short = [lab.submit(group, "--repeats", "2") for group in "ab"]
    long = lab.submit("c")
    for group in "ab":
        lab.submit(group, "--repeats", "1")
    for name in ("east", "west"):
        lab.drive(name, "--drain")
    for single in (*short, long):
        lab.wait_until_it_measures(single)
    server.stop()
    gone = time.monotonic()
    try:
        for group in "ab":
            lab.wait(
                f"the run on {group} ends while nobody can be told",
                lambda group=group: lab.results(group)[0].experiment.state == "done",
            )
        lab.wait("the database is away for a while", lambda: time.monotonic() - gone > AWAY_S)
    finally:
        server.start()
    for worker in lab.workers.values():
        assert worker.wait(PATIENCE_S) == 0
    assert {s.state for s in lab.statuses()} == {"done"}, lab.output_of("east") + lab.output_of(
        "west"
    )
    lab.assert_complete("c", blocks=9)
    for group in "ab":
        assert [len(data.trials) for data in lab.results(group)] == [4, 2]
        lab.assert_one_after_the_other(group)
    for group in "abc":
        for data in lab.results(group):
            assert lab.events(group, data.experiment.id) == ["begun", "finished"]
    assert ": waiting:" not in lab.output_of("east") + lab.output_of("west"), "no lock had to judge"


@pytest.mark.long
def test_a_run_that_finds_no_server_as_it_begins_is_begun_again(
    server: Postgres, lab: FleetLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue on one server, results on another, which goes after the worker looked what is stored."""
    with raised_postgres() as results:
        lab.write("a", results.new_database(), blocks=2)
        single = lab.submit("a")
        go = lab.directory / "go"
        monkeypatch.setenv("RUN_WAITS_FOR", str(go))
        lab.drive("east", "--drain")
        called = lab.fleet().groups["a"].out / "fleet" / f"{single}.log"
        lab.wait("its run is called", called.is_file)
        results.stop()
        go.touch()
        lab.wait_for(single, lambda status: bool(status.progress.waiting), "it is waited for")
        results.start()
        assert lab.workers["east"].wait(PATIENCE_S) == 0
        assert [s.state for s in lab.statuses()] == ["done"], lab.output_of("east")
        lab.assert_complete("a", blocks=2)


@pytest.mark.long
def test_runs_whose_results_are_on_the_server_wait_for_it(server: Postgres, lab: FleetLab) -> None:
    """Queue and results of two groups on one server, which is away while trials end."""
    raw = lab.directory / "raw"
    store = f"{server.new_database()}&raw={raw}"
    lab.write("ab", store, blocks=4, variants=SLOW)
    jobs = [lab.submit(group) for group in "ab"]
    lab.drive("east", "--drain")
    for single in jobs:
        lab.wait_until_it_measures(single)
    server.stop()
    gone = time.monotonic()
    try:
        lab.wait("the database is away for a while", lambda: time.monotonic() - gone > AWAY_S)
    finally:
        server.start()
    assert lab.workers["east"].wait(PATIENCE_S) == 0
    assert {s.state for s in lab.statuses()} == {"done"}, lab.output_of("east")
    for group in "ab":
        lab.assert_complete(group, blocks=4)
        (data,) = lab.results(group)
        assert lab.events(group, data.experiment.id) == ["begun", "finished"]
        assert {trial.raw_dir for trial in data.trials} == set(data.contents)
    assert PASSWORD not in lab.output_of("east")
