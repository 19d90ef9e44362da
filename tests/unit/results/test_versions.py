"""Stores of other versions of the schema: earlier ones are brought up to date, newer ones are left alone."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from perfrunner.errors import StoreError
from perfrunner.results import BuildRecord, ResultStore, schema
from tests.support.records import experiment, trial


def test_a_newer_schema_is_left_alone(tmp_path):
    ResultStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        connection.execute("update perfrunner_schema set version = 99")
    connection.close()
    with pytest.raises(StoreError, match="schema version 99") as caught:
        ResultStore.open(tmp_path)
    assert "upgrade" in caught.value.hint


VERSION_1_PLACE = "experiment_id, block, attempt, workload, bucket, variant"


def as_version_1(path):
    """Make a store what perfrunner left with schema 1: no column `group`, not in the constraint either."""
    with sqlite3.connect(path) as connection:
        (sql,) = connection.execute(
            "select sql from sqlite_master where name = 'trials'"
        ).fetchone()
        old = re.sub(r'\n\t"group" INTEGER[^,]*, ?', "", sql)
        old = re.sub(r'variant, "group"\)', "variant)", old)
        assert "group" not in old
        names = ", ".join(
            row[1] for row in connection.execute("pragma table_info(trials)") if row[1] != "group"
        )
        connection.executescript(
            f"alter table trials rename to new; drop index ix_trials_experiment_id; {old};"
            f"insert into trials select {names} from new; drop table new;"
            "create index ix_trials_experiment_id on trials (experiment_id);"
            "drop table raw_files;"
            "update perfrunner_schema set version = 1"
        )
    connection.close()


def test_a_store_of_version_1_is_brought_up_to_date(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())
        store.add_trial("e1", trial())
    as_version_1(tmp_path / "results.sqlite")
    with ResultStore.open(tmp_path, create=False) as store:
        assert store.load("e1").trials == (trial(),)
        store.add_trials("e1", [trial(block=2, group=1), trial(block=2, group=2)])
        with pytest.raises(StoreError, match="stored already"):
            store.add_trial("e1", trial(block=2, group=2))
    with ResultStore.open(tmp_path) as store:
        assert [t.group for t in store.load("e1").trials] == [0, 1, 2]
    engine = create_engine(f"sqlite:///{tmp_path / 'results.sqlite'}")
    with engine.connect() as connection:
        assert differences_from_today(connection) == []
    engine.dispose()


def as_version_3(path):
    """Turn a store into one of schema 3: the column `ensemble`, and JSON in the words of that time."""
    renames = {
        "spec_json": {
            "schedule": "side-by-side",
            "limits": {"arms": 2, "max_voids": 5},
            "gains": [{"variant": "b"}],
            "reference": {"claim": "x"},
            "workloads": {"pf": {"schedule": "side-by-side"}},
            "variants": {"arms": {"proof": {"skip": ["params"]}, "options": {"planted": "share1"}}},
        },
        "facts": {
            "layouts": {"pf": {"schedule": "side-by-side", "arms": 2, "why": ""}},
            "sources": {"arms": {"ensemble": {"commit": "1"}}},
            "sampling_check": [{"side_by_side": True, "status": "void"}],
        },
    }
    with sqlite3.connect(path) as connection:
        connection.execute('alter table trials rename column "group" to ensemble')
        for column, value in renames.items():
            connection.execute(f"update experiments set {column} = ?", [json.dumps(value)])
        facts = json.dumps({"schedule": "side-by-side", "arms": ["a", "b"]})
        connection.execute("update trials set status = 'void', facts = ?", [facts])
        connection.execute("update builds set settings = ?", ['{"options.planted": "share1"}'])
        connection.execute("update perfrunner_schema set version = 3")
    connection.close()


def test_a_store_of_version_3_is_read_in_todays_words(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())
        store.add_build("e1", BuildRecord("b", "id"))
        store.add_trial("e1", trial(group=2))
    as_version_3(tmp_path / "results.sqlite")
    with ResultStore.open(tmp_path, create=False) as store:
        data = store.load("e1")
    assert data.experiment.spec_json == {
        "schedule": "interleaved",
        "limits": {"group_size": 2, "max_discarded": 5},
        "expected_gains": [{"variant": "b"}],
        "published": {"claim": "x"},
        "workloads": {"pf": {"schedule": "interleaved"}},
        "variants": {  # a variant keeps the name that its user gave it
            "arms": {"settings_check": {"skip": ["params"]}, "options": {"injected": "share1"}}
        },
    }
    assert data.experiment.facts == {
        "groupings": {"pf": {"schedule": "interleaved", "group_size": 2, "why": ""}},
        "sources": {"variants": {"ensemble": {"commit": "1"}}},
        "sampling_check": [{"interleaved": True, "status": "discarded"}],
    }
    (single,) = data.trials
    assert (single.group, single.status) == (2, "discarded")
    assert single.facts == {"schedule": "interleaved", "variants": ["a", "b"]}
    assert data.builds[0].settings == {"options.injected": "share1"}
    engine = create_engine(f"sqlite:///{tmp_path / 'results.sqlite'}")
    with engine.connect() as connection:
        assert differences_from_today(connection) == []
    engine.dispose()


def test_a_store_of_version_4_is_read_with_todays_profiles_and_presets(tmp_path):
    """Before version 5, `profile: perf` ran after the last block, and `blocks` recorded the trials."""

    def spec(*profiles, key="preset"):
        allocators = ({"name": "jemalloc-5.1.0", key: "historic"}, {"name": "system", key: None})
        return {
            "profile": "large",
            "workloads": {str(n): {"profile": profile} for n, profile in enumerate(profiles)},
            "variants": {
                str(n): {"allocator": allocator} for n, allocator in enumerate(allocators)
            },
        }

    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment(spec_json=spec("perf", "blocks", None, key="profile")))
        store.create_experiment(experiment("e2", spec_json={"workloads": None}))
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        connection.execute("update perfrunner_schema set version = 4")
    connection.close()
    with ResultStore.open(tmp_path, create=False) as store:
        assert store.load("e1").experiment.spec_json == spec(None, "perf", None)
        assert store.load("e2").experiment.spec_json == {"workloads": None}


def differences_from_today(connection):
    """Return the differences between the tables that are there and those of a fresh store."""
    return compare_metadata(MigrationContext.configure(connection), schema.metadata)
