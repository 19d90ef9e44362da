"""Stores that an older perfrunner wrote, brought to today's schema in the caller's transaction: all of it or none.

The steps are Alembic's (results/migrations); which of them a store has seen is in its own table of versions, which a
perfrunner that knows nothing of Alembic reads, too.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, update

from perfrunner.results.schema import schema_table

SCRIPTS = Path(__file__).with_name("migrations")


def upgrade(connection: Connection, version: int) -> None:
    """From `version` to the newest, step by step; a version that is no step's is left as it is."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    steps = {int(step.revision): step for step in ScriptDirectory(str(SCRIPTS)).walk_revisions()}
    if version not in steps:
        return
    with Operations.context(MigrationContext.configure(connection)):
        for number in range(version + 1, max(steps) + 1):
            steps[number].module.upgrade()
            connection.execute(update(schema_table).values(version=number))
