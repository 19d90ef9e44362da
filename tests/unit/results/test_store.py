"""The store: what goes in comes out, one transaction a trial, and clear errors."""

from __future__ import annotations

import os
import sqlite3
import threading
from datetime import timedelta, timezone

import pytest
from sqlalchemy import event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from perfrunner.errors import EXIT_USAGE, StoreError, UsageError
from perfrunner.results import BuildRecord, ResultStore, database, schema
from perfrunner.results.schema import experiments
from tests.support.records import NOW, experiment, plant, trial


def test_a_store_that_another_program_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    with ResultStore.open(tmp_path) as store:
        other = sqlite3.connect(tmp_path / "results.sqlite")
        other.execute("begin immediate")
        with pytest.raises(
            StoreError, match=r"sqlite was locked by another program for 0\.1 s"
        ) as e:
            store.create_experiment(experiment())
        other.close()
        store.create_experiment(experiment())
    assert "continue with --resume" in e.value.hint


def test_everything_comes_back_as_it_went_in(store, tmp_path):
    build = BuildRecord("glibc", "b1", "/x", True, {"compiler": "g++"}, {"opt.x": "1"})
    store.create_experiment(experiment(state="done"))
    store.add_build("e1", build)
    store.add_trial("e1", trial())
    store.add_trial("e1", trial(block=2, status="discarded", reason="7 misses", metrics={}))
    data = store.load("e1")
    assert data.experiment == experiment(state="done")
    assert data.builds == (build,)
    assert data.trials == (
        trial(),
        trial(block=2, status="discarded", reason="7 misses", metrics={}),
    )
    assert data.trials[0].seconds == 5
    assert data.directory == str(tmp_path / "out")


def test_times_are_kept_as_instants(store):
    zone = timezone(timedelta(hours=9))
    store.create_experiment(experiment(created_at=NOW.astimezone(zone)))
    assert store.load("e1").experiment.created_at == NOW
    with pytest.raises(StoreError, match="without a time zone"):
        store.add_trial("e1", trial(started_at=NOW.replace(tzinfo=None)))
    assert store.load("e1").trials == ()


def test_a_trial_is_stored_at_once_and_seen_by_another_process(store, tmp_path):
    store.create_experiment(experiment())
    store.add_trial("e1", trial())
    with ResultStore.open(tmp_path / "out", create=False) as reader:
        assert len(reader.load("e1").trials) == 1


def test_the_same_place_cannot_be_filled_twice(store):
    store.create_experiment(experiment())
    store.add_trial("e1", trial())
    with pytest.raises(
        StoreError, match="block 1 attempt 1 pillowfight persistent glibc is stored"
    ):
        store.add_trial("e1", trial(metrics={"ops_per_s": 2.0}))
    with pytest.raises(StoreError, match="experiment e1 is stored already"):
        store.create_experiment(experiment())
    store.add_trial("e1", trial(attempt=2))
    assert [t.metrics["ops_per_s"] for t in store.load("e1").trials] == [1.5e6, 1.5e6]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_number_is_refused(store, value):
    store.create_experiment(experiment())
    with pytest.raises(StoreError, match="ops_per_s of glibc in block 1"):
        store.add_trial("e1", trial(metrics={"ops_per_s": value}))


def test_wrong_states_are_refused(store):
    store.create_experiment(experiment())
    with pytest.raises(StoreError, match=r"expected one of running, .* got 'finished'"):
        store.set_state("e1", "finished")
    with pytest.raises(StoreError, match=r"expected one of ok, .* got 'good'"):
        store.add_trial("e1", trial(status="good"))
    with pytest.raises(UsageError, match="no experiment 'e9'"):
        store.add_trial("e9", trial())


def test_a_build_made_again_replaces_the_first(store):
    store.create_experiment(experiment())
    store.add_build("e1", BuildRecord("glibc", "old"))
    store.add_build("e1", BuildRecord("glibc", "new"))
    assert [b.build_id for b in store.load("e1").builds] == ["new"]


def test_list_latest_state_facts_and_delete(store):
    for number in (1, 2, 3):
        name = "odd" if number % 2 else "even"
        store.create_experiment(experiment(f"e{number}", name, minutes=number))
    store.add_trial("e2", trial())
    store.add_trial("e2", trial(block=2, status="failed", reason="crash"))
    store.set_state("e2", "done")
    store.set_facts("e2", {"preconditions": {"two_cores": None}})
    summaries = store.list()
    assert [s.experiment.id for s in summaries] == ["e1", "e2", "e3"]
    assert (summaries[1].ok, summaries[1].discarded, summaries[1].failed) == (1, 0, 1)
    assert summaries[1].experiment.state == "done"
    assert summaries[1].experiment.facts == {"preconditions": {"two_cores": None}}
    assert store.latest().id == "e3"
    assert store.latest("even").id == "e2"
    assert store.latest("none") is None
    store.delete("e2")
    assert [s.experiment.id for s in store.list()] == ["e1", "e3"]
    with pytest.raises(UsageError):
        store.load("e2")
    with pytest.raises(UsageError):
        store.delete("e2")


def test_resolve_finds_what_a_person_means(store):
    with pytest.raises(UsageError, match="no experiment is stored"):
        store.resolve(None)
    store.create_experiment(experiment("quick-20261120-1", "quick", minutes=1))
    store.create_experiment(experiment("quick-20261121-1", "quick", minutes=2))
    assert store.resolve(None).id == "quick-20261121-1"
    assert store.resolve("quick").id == "quick-20261121-1"
    assert store.resolve("quick-20261120").id == "quick-20261120-1"
    with pytest.raises(UsageError, match="matches several experiments"):
        store.resolve("quick-2")
    with pytest.raises(UsageError) as caught:
        store.resolve("quikc")
    assert "did you mean quick?" in caught.value.hint


def test_text_that_is_not_utf_8_is_stored_readable(store):
    name = os.fsdecode(b"caf\xe9\0")
    readable = "caf\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    store.create_experiment(experiment(spec_path=name, facts={name: [name]}))
    store.add_build("e1", BuildRecord("glibc", "b1", provenance={"title": name}))
    store.add_trial("e1", trial(reason=name, facts={"note": name}))
    findings = store.load("e1")
    assert findings.experiment.spec_path == readable
    assert findings.experiment.facts == {readable: [readable]}
    assert findings.builds[0].provenance == {"title": readable}
    assert (findings.trials[0].reason, findings.trials[0].facts) == (readable, {"note": readable})
    store.set_facts("e1", {"hosts": {name: name}})
    assert store.load("e1").experiment.facts == {"hosts": {readable: readable}}


def test_a_directory_may_have_any_name(tmp_path):
    directory = tmp_path / os.fsdecode(b"caf\xe9 %3f?#")
    for _ in range(2):
        with ResultStore.open(directory) as store:
            assert store.list() == []
    assert (directory / "results.sqlite").is_file()


def test_threads_may_share_a_store(store):
    store.create_experiment(experiment())
    errors = []

    def work(first):
        try:
            for block in range(first, first + 10):
                store.add_trial("e1", trial(block=block))
        except Exception as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * n + 1,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.load("e1").trials) == 40


@pytest.mark.parametrize("identifier", ["/etc", "../x", "a/b", "", ".hidden", "a\nb", "A" * 200])
def test_an_experiment_id_that_is_no_name_is_not_read(store, identifier):
    """Somebody else may write to a shared store, and an id becomes a directory that is read and removed."""
    with pytest.raises(StoreError, match="is not an experiment id"):
        store.create_experiment(experiment(identifier))
    plant(store, experiments.insert(), **vars(experiment(identifier)))
    for read in (store.list, store.own, store.latest, lambda: store.load(identifier)):
        with pytest.raises(StoreError, match="is not an experiment id"):
            read()


def test_opening_what_is_not_there_or_not_ours(tmp_path):
    with pytest.raises(StoreError, match="no results in"):
        ResultStore.open(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"not a database, " * 100)
    with pytest.raises(StoreError, match="is damaged"):
        ResultStore.open(garbage)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("create table people (name text)")
    connection.close()
    with pytest.raises(StoreError, match="not a perfrunner store"):
        ResultStore.open(other)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreError):
        ResultStore.open(blocked / "out")
    with pytest.raises(StoreError, match="memory"):
        ResultStore.open("sqlite://")
    with pytest.raises(StoreError):
        ResultStore.open("nosuch://host/db")


@pytest.mark.parametrize("place", ["host:port", "[::1", "host:0", "host:99999"])
def test_a_url_without_a_port_that_can_be_is_refused_at_once(place):
    with pytest.raises(StoreError, match="is not a database URL") as refused:
        ResultStore.open(f"postgresql://me:secret@{place}/results")
    assert refused.value.exit_code == EXIT_USAGE  # nobody waits for it
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "options", ["ras=/srv/raw", "mode=ro", "b/results.sqlite"], ids=["typo", "unknown", "file name"]
)
def test_an_option_without_an_effect_is_refused(tmp_path, options):
    with pytest.raises(StoreError, match=options.partition("=")[0]) as refused:
        ResultStore.open(f"sqlite:///{tmp_path}/a?{options}")
    assert refused.value.exit_code == EXIT_USAGE


def test_a_group_is_stored_whole_or_not_at_all(store):
    store.create_experiment(experiment())
    store.add_trial("e1", trial(variant="b"))
    with pytest.raises(StoreError, match="stored already"):
        store.add_trials("e1", [trial(variant="a"), trial(variant="b")])
    assert [t.variant for t in store.load("e1").trials] == ["b"]


def test_damage_in_the_middle_is_a_store_error(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())
        for block in range(1, 200):
            store.add_trial("e1", trial(block=block))
    path = tmp_path / "results.sqlite"
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = b"\xff" * (len(content) - 4096 - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), ResultStore.open(tmp_path) as store:
        store.load("e1")


def test_json_that_does_not_parse_is_a_store_error(store, tmp_path):
    store.create_experiment(experiment())
    with sqlite3.connect(tmp_path / "out" / "results.sqlite") as connection:
        connection.execute("update experiments set facts = '{broken'")
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        store.load("e1")


def test_a_full_disk_keeps_what_was_stored(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())
        store.add_trial("e1", trial())
        limit = _pages(tmp_path)
        event.listen(
            store._engine, "connect", lambda c, _: c.execute(f"pragma max_page_count = {limit}")
        )
        with pytest.raises(StoreError, match="no space left") as caught:
            store.add_trial("e1", trial(block=2, facts={"x": "y" * 100_000}))
        assert "--resume" in caught.value.hint
        assert len(store.load("e1").trials) == 1


def _pages(directory):
    connection = sqlite3.connect(directory / "results.sqlite")
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.close()
    return pages


def test_a_killed_writer_leaves_whole_trials(tmp_path):
    """A transaction that was never committed is not there for the next reader."""
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())
        store.add_trial("e1", trial())
        connection = sqlite3.connect(tmp_path / "results.sqlite")
        connection.execute("begin immediate")
        connection.execute("delete from trials")
        connection.close()  # without a commit
        assert len(store.load("e1").trials) == 1


def test_the_schema_is_valid_for_postgresql():
    dialect = postgresql.dialect()
    tables = schema.metadata.sorted_tables
    text = "\n".join(str(CreateTable(table).compile(dialect=dialect)) for table in tables)
    for words in ("CREATE TABLE trials", "SERIAL", "metrics JSON NOT NULL", "seed BIGINT"):
        assert words in text
