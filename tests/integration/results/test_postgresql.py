"""The store on a real PostgreSQL: what holds for a file holds for a server."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.errors import EXIT_FAILED, EXIT_USAGE, StoreError
from perfrunner.results import BuildRecord, ResultStore, database
from perfrunner.results.database import AGAIN_S
from perfrunner.results.database_errors import ServerAwayError
from perfrunner.results.files import Content, Contents
from tests.integration.postgres import PASSWORD, Postgres, raised_postgres
from tests.unit.results.test_store import (
    experiment,
    test_a_build_made_again_replaces_the_first,
    test_a_metric_that_is_no_number_is_refused,
    test_list_latest_state_facts_and_delete,
    test_resolve_finds_what_a_person_means,
    test_text_that_is_not_utf_8_is_stored_readable,
    test_the_same_place_cannot_be_filled_twice,
    test_threads_may_share_a_store,
    test_times_are_kept_as_instants,
    test_wrong_states_are_refused,
    trial,
)
from tests.unit.results.test_versions import VERSION_1_PLACE, differences_from_today

pytestmark = pytest.mark.integration

# The same tests as of a file, with this module's `store`.
__all__ = [
    "test_a_build_made_again_replaces_the_first",
    "test_a_metric_that_is_no_number_is_refused",
    "test_list_latest_state_facts_and_delete",
    "test_resolve_finds_what_a_person_means",
    "test_text_that_is_not_utf_8_is_stored_readable",
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


@pytest.mark.parametrize(
    ("database", "user", "options"),
    [
        ("postgres", "perfrunner:guessed-wrong", ""),
        ("postgres", "perfrunner", ""),
        ("postgres", "nobody:guessed-wrong", ""),
        ("nosuch", f"perfrunner:{PASSWORD}", ""),
        ("postgres", f"perfrunner:{PASSWORD}", "&options=-cnosuch%3D1"),
        ("postgres", f"perfrunner:{PASSWORD}", "&nosuch=1"),
        ("postgres", f"perfrunner:{PASSWORD}", "&sslmode=odd"),
        ("postgres", f"perfrunner:{PASSWORD}", "&port=odd"),
    ],
    ids=["password", "no password", "user", "database", "setting", "option", "value", "port"],
)
def test_what_the_server_will_always_refuse_is_a_usage_error(
    server: Postgres, database: str, user: str, options: str
) -> None:
    url = f"postgresql://{user}@/{database}?host={server.directory}{options}"
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url)
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint
    assert "guessed-wrong" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_password_that_changes_during_a_run_fails_the_run_at_once(server: Postgres) -> None:
    import psycopg

    url = server.new_database()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE ROLE fickle LOGIN PASSWORD 'open-sesame'")
        owner.execute("GRANT ALL ON SCHEMA public TO fickle")
        with ResultStore.open(url.replace("//perfrunner:", "//fickle:")) as store:
            store.create_experiment(experiment())
            owner.execute("ALTER ROLE fickle PASSWORD 'another'")
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'fickle'"
            )
            with pytest.raises(StoreError) as caught:
                store.add_trial("e1", trial())
    assert caught.value.exit_code == EXIT_FAILED
    assert caught.value.hint


def test_time_limits_of_a_role_do_not_end_a_transaction_that_waits(server: Postgres) -> None:
    import psycopg

    url = server.new_database()
    with psycopg.connect(url, autocommit=True) as owner:
        for limit in ("statement_timeout", "lock_timeout"):
            owner.execute(f"ALTER DATABASE {owner.info.dbname} SET {limit} = '20ms'".encode())
    with ResultStore.open(url) as store, store._engine.connect() as connection:
        for limit in ("statement_timeout", "lock_timeout"):
            assert connection.exec_driver_sql(f"SHOW {limit}").scalar() == "0"


def test_a_pooler_that_changes_the_session_with_each_transaction_does_no_harm(
    server: Postgres,
) -> None:
    """PgBouncer with pool_mode = transaction does so. A session does not know what another one has prepared."""
    with ResultStore.open(server.new_database()) as store:
        for number in range(12):
            store.create_experiment(experiment(f"e{number}"))
        with store._engine.connect() as connection:
            prepared = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements")
            assert prepared.scalar() == 0


def test_a_search_path_without_a_schema_says_what_to_do(server: Postgres) -> None:
    with pytest.raises(StoreError) as caught:
        ResultStore.open(f"{server.new_database()}&options=-csearch_path%3Dnosuch")
    assert "search_path" in (caught.value.hint or "")


def test_a_password_in_the_query_is_in_no_message(server: Postgres) -> None:
    url = f"postgresql://perfrunner@/postgres?host={server.directory}&password=guessed-wrong"
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url)
    assert "guessed-wrong" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused_at_once(
    server: Postgres, encoding: str
) -> None:
    with pytest.raises(StoreError) as caught:
        ResultStore.open(server.new_database(encoding))
    assert encoding in str(caught.value)
    assert "UTF8" in (caught.value.hint or "")


def test_the_encoding_of_the_environment_has_no_effect(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with ResultStore.open(server.new_database()) as store:
        record = dataclasses.replace(experiment(), spec_text="# 日本語")
        store.create_experiment(record)
        assert store.load("e1").experiment == record


def test_a_user_without_the_right_to_write_reads_and_learns_what_a_write_needs(
    server: Postgres,
) -> None:
    import psycopg

    url = server.new_database()
    with ResultStore.open(url) as store:
        store.create_experiment(experiment())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'open-sesame'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    with ResultStore.open(url.replace("//perfrunner:", "//reader:"), create=False) as reader:
        assert reader.load("e1").experiment == experiment()
        with pytest.raises(StoreError) as caught:
            reader.create_experiment(experiment("e2"))
    assert caught.value.hint
    standby = f"{url}&options=-cdefault_transaction_read_only%3Don"
    with ResultStore.open(standby) as reader, pytest.raises(StoreError) as caught:
        reader.create_experiment(experiment("e2"))
    assert "primary" in (caught.value.hint or "")


def test_a_database_without_results_is_an_error_for_a_reader(server: Postgres) -> None:
    url = server.new_database()
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url, create=False)
    assert PASSWORD not in str(caught.value)


def test_a_server_that_stays_away_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfrunner.results.database.AWAY_S", 0.1)
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

        monkeypatch.setattr("perfrunner.results.database.time.sleep", back)
        store.add_trial("e1", trial())
        assert len(asked) == 3
        assert store.load("e1").trials == (trial(),)


def test_a_raw_directory_that_hangs_keeps_no_other_group_waiting(
    server: Postgres, tmp_path: Path
) -> None:
    """A network file system that does not answer while one group copies to it."""
    url = f"{server.new_database()}&raw={tmp_path / 'raw'}"
    stuck, quick = tmp_path / "stuck", tmp_path / "quick"
    for directory in (stuck, quick):
        directory.mkdir()
    (stuck / "client.json").write_text("1")
    (quick / "client.json").write_text("2")
    copying, go_on = threading.Event(), threading.Event()
    with (
        ResultStore.open(url, out=tmp_path / "a") as mine,
        ResultStore.open(url, out=tmp_path / "b") as theirs,
    ):
        mine.create_experiment(experiment("e1"))
        theirs.create_experiment(experiment("e2"))
        contents = mine._contents
        assert contents is not None

        class Hung(Contents):
            def keep(self, directory: Path) -> Iterator[Content]:
                copying.set()
                assert go_on.wait(300)
                return super().keep(directory)

        mine._contents = Hung(contents.directory)
        hanging = threading.Thread(target=mine.keep_raw, args=("e1", "e1/trials/x", stuck))
        hanging.start()
        assert copying.wait(300)
        other = threading.Thread(
            target=theirs.keep_raw, args=("e2", "e2/trials/x", quick), daemon=True
        )
        other.start()
        other.join(300)
        waited = other.is_alive()
        go_on.set()
        hanging.join()
        other.join()
        assert not waited
        assert set(mine.load("e1").contents) == {"e1/trials/x"}
        assert set(theirs.load("e2").contents) == {"e2/trials/x"}


def test_a_writer_that_is_stuck_in_its_transaction_is_cut_off(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped has the lock of all groups: not for longer than that."""
    monkeypatch.setattr(database, "STUCK_S", 1)
    url = f"{server.new_database()}&raw={tmp_path / 'raw'}"
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "client.json").write_text("1")

    def get_stuck(store: ResultStore) -> None:
        with database.transaction(store._engine, "postgresql://stuck") as stuck:
            database.one_at_a_time(stuck)
            other = threading.Thread(
                target=store.keep_raw, args=("e1", "e1/trials/x", tmp_path / "trial"), daemon=True
            )
            other.start()
            other.join(300)
            assert not other.is_alive()
            assert set(store.load("e1").contents) == {"e1/trials/x"}

    with ResultStore.open(url) as store:
        store.create_experiment(experiment())
        with pytest.raises(ServerAwayError):
            get_stuck(store)


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
                'ALTER TABLE trials DROP COLUMN "group"',
                f"ALTER TABLE trials ADD CONSTRAINT one_trial_a_place UNIQUE ({VERSION_1_PLACE})",
                "UPDATE perfrunner_schema SET version = 1",
            ):
                connection.exec_driver_sql(statement)
        with ResultStore.open(url, create=False) as again:
            assert again.load("e1").trials == (trial(),)
        with engine.connect() as connection:
            assert differences_from_today(connection) == []
