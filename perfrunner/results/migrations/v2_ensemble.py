"""trials.ensemble, also in the rule that a place has one trial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

PLACE = "one_trial_a_place"
COLUMNS = ("experiment_id", "block", "attempt", "workload", "bucket", "variant", "ensemble")


def upgrade() -> None:
    """Change the constraint. SQLite cannot, so its table is written again with the same rows."""
    with op.batch_alter_table("trials") as trials:
        trials.add_column(sa.Column("ensemble", sa.Integer, nullable=False, server_default="0"))
        trials.drop_constraint(PLACE, type_="unique")
        trials.create_unique_constraint(PLACE, COLUMNS)
