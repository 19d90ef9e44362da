"""Names of docs/glossary.md: trials.ensemble becomes trials.group, and stored JSON gets today's keys and words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from perfrunner.results import legacy

revision = "4"
down_revision = "3"

PLACE = "one_trial_a_place"
COLUMNS = ("experiment_id", "block", "attempt", "workload", "bucket", "variant", "group")


def upgrade() -> None:
    """Rename the column, then translate row by row: all of it in the caller's transaction."""
    with op.batch_alter_table("trials") as trials:
        trials.drop_constraint(PLACE, type_="unique")
        trials.alter_column("ensemble", new_column_name="group")
    with op.batch_alter_table("trials") as trials:  # the constraint needs the new name to be there
        trials.create_unique_constraint(PLACE, COLUMNS)
    connection = op.get_bind()
    experiments = sa.table(
        "experiments", sa.column("id"), sa.column("spec_json", sa.JSON), sa.column("facts", sa.JSON)
    )
    for row in connection.execute(sa.select(experiments)).all():
        connection.execute(
            sa.update(experiments)
            .where(experiments.c.id == row.id)
            .values(
                spec_json=legacy.current_spec(row.spec_json), facts=legacy.current_facts(row.facts)
            )
        )
    builds = sa.table("builds", sa.column("row"), sa.column("settings", sa.JSON))
    for row in connection.execute(sa.select(builds)).all():
        settings = legacy.current_settings(row.settings)
        if settings != row.settings:
            connection.execute(
                sa.update(builds).where(builds.c.row == row.row).values(settings=settings)
            )
    trials_table = sa.table(
        "trials", sa.column("row"), sa.column("status"), sa.column("facts", sa.JSON)
    )
    for row in connection.execute(sa.select(trials_table)).all():
        connection.execute(
            sa.update(trials_table)
            .where(trials_table.c.row == row.row)
            .values(
                status=legacy.current_status(row.status),
                facts=legacy.current_trial_facts(row.facts),
            )
        )
