"""The store on a real PostgreSQL: what holds for a file holds for a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from perfrunner.errors import StoreError
from perfrunner.results import BuildRecord, ResultStore
from perfrunner.results.patience import AGAIN_S
from tests.integration.postgres import PASSWORD, Postgres, raised_postgres
from tests.unit.results.test_store import (
    VERSION_1_PLACE,
    differences_from_today,
    experiment,
    test_a_build_made_again_replaces_the_first,
    test_a_metric_that_is_no_number_is_refused,
    test_list_latest_state_facts_and_delete,
    test_resolve_finds_what_a_person_means,
    test_the_same_place_cannot_be_filled_twice,
    test_threads_may_share_a_store,
    test_times_are_kept_as_instants,
    test_wrong_states_are_refused,
    trial,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

# The same tests as of a file, with this module's `store`.
__all__ = [
    "test_a_build_made_again_replaces_the_first",
    "test_a_metric_that_is_no_number_is_refused",
    "test_list_latest_state_facts_and_delete",
    "test_resolve_finds_what_a_person_means",
    "test_the_same_place_cannot_be_filled_twice",
    "test_threads_may_share_a_store",
    "test_times_are_kept_as_instants",
    "test_wrong_states_are_refused",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with raised_postgres() as raised:
        yield raised


@pytest.fixture
def store(server: Postgres) -> Iterator[ResultStore]:
    with ResultStore.open(server.new_database()) as opened:
        yield opened


def test_another_process_reads_everything_as_it_was_written(server: Postgres) -> None:
    url = server.new_database()
    build = BuildRecord("glibc", "b1", "/x", True, {"compiler": "g++"}, {"opt.x": "1"})
    with ResultStore.open(url) as writer, ResultStore.open(url, create=False) as reader:
        writer.create_experiment(experiment())
        writer.add_build("e1", build)
        writer.add_trial("e1", trial())
        data = reader.load("e1")
    assert (data.experiment, data.builds, data.trials) == (experiment(), (build,), (trial(),))
    assert data.directory is None


def test_two_runs_that_begin_at_once_make_one_set_of_tables(server: Postgres) -> None:
    url = server.new_database()
    errors = []

    def work(name: str) -> None:
        try:
            with ResultStore.open(url) as store:
                store.create_experiment(experiment(name))
        except Exception as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"e{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with ResultStore.open(url, create=False) as store:
        assert len(store.list()) == 4


def test_a_wrong_password_is_refused_and_not_repeated(server: Postgres) -> None:
    with pytest.raises(StoreError) as caught:
        ResultStore.open(server.url("postgres", password="guessed-wrong"))
    assert "guessed-wrong" not in str(caught.value)
    assert "authentication failed" in str(caught.value)


def test_a_database_without_results_is_an_error_for_a_reader(server: Postgres) -> None:
    url = server.new_database()
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url, create=False)
    assert PASSWORD not in str(caught.value)


def test_a_server_that_stays_away_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfrunner.results.patience.AWAY_S", 0.1)
    with raised_postgres() as own, ResultStore.open(own.new_database()) as store:
        store.create_experiment(experiment())
        own.stop()
        with pytest.raises(StoreError) as caught:
            store.add_trial("e1", trial())
    assert PASSWORD not in str(caught.value)


def test_a_server_that_is_away_for_a_while_costs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    with raised_postgres() as own, ResultStore.open(own.new_database()) as store:
        store.create_experiment(experiment())
        own.stop()
        asked: list[float] = []

        def back(seconds: float, sleep=time.sleep) -> None:
            if seconds != AGAIN_S:
                sleep(seconds)
                return
            asked.append(seconds)
            if len(asked) == 3:
                own.start()

        monkeypatch.setattr("perfrunner.results.patience.time.sleep", back)
        store.add_trial("e1", trial())
        assert len(asked) == 3
        assert store.load("e1").trials == (trial(),)


def test_a_store_of_version_1_on_a_server_is_brought_up_to_date(server: Postgres) -> None:
    url = server.new_database()
    with ResultStore.open(url) as store:
        store.create_experiment(experiment())
        store.add_trial("e1", trial())
        engine = store._engine
        with engine.begin() as connection:
            for statement in (
                "DROP TABLE raw_files",
                "ALTER TABLE trials DROP CONSTRAINT one_trial_a_place",
                "ALTER TABLE trials DROP COLUMN ensemble",
                f"ALTER TABLE trials ADD CONSTRAINT one_trial_a_place UNIQUE ({VERSION_1_PLACE})",
                "UPDATE perfrunner_schema SET version = 1",
            ):
                connection.exec_driver_sql(statement)
        with ResultStore.open(url, create=False) as again:
            assert again.load("e1").trials == (trial(),)
        with engine.connect() as connection:
            assert differences_from_today(connection) == []
