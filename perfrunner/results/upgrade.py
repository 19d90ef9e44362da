"""Stores that an older perfrunner wrote, brought to today's schema in the caller's transaction: all of it or none."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, update

from perfrunner.results.schema import schema_table, trials

PLACE = "one_trial_a_place"


def upgrade(connection: Connection, version: int) -> None:
    """From `version` to the newest, step by step; a version that has no step is left as it is."""
    while (step := _STEPS.get(version)) is not None:
        step(connection)
        version += 1
        connection.execute(update(schema_table).values(version=version))


def _add_ensemble(connection: Connection) -> None:
    """1 to 2: trials.ensemble, also in the rule that a place has one trial."""
    if connection.dialect.name == "sqlite":
        _rebuild_trials(connection)
        return
    columns = "experiment_id, block, attempt, workload, bucket, variant, ensemble"
    for statement in (
        "ALTER TABLE trials ADD COLUMN ensemble INTEGER NOT NULL DEFAULT 0",
        f"ALTER TABLE trials DROP CONSTRAINT {PLACE}",
        f"ALTER TABLE trials ADD CONSTRAINT {PLACE} UNIQUE ({columns})",
    ):
        connection.exec_driver_sql(statement)


def _rebuild_trials(connection: Connection) -> None:
    """SQLite cannot change a constraint: the table is written anew, with its rows as they are."""
    old = [c.name for c in trials.columns if c.name != "ensemble"]
    names = ", ".join(f'"{name}"' for name in old)
    connection.exec_driver_sql("DROP INDEX ix_trials_experiment_id")
    connection.exec_driver_sql("ALTER TABLE trials RENAME TO trials_of_version_1")
    trials.create(connection)
    connection.exec_driver_sql(
        f"INSERT INTO trials ({names}) SELECT {names} FROM trials_of_version_1"
    )
    connection.exec_driver_sql("DROP TABLE trials_of_version_1")


_STEPS: dict[int, Callable[[Connection], None]] = {1: _add_ensemble}
