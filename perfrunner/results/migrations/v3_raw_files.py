"""raw_files: which contents a trial's raw files have, where they are kept by content."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table of raw files; earlier experiments have no rows in it."""
    op.create_table(
        "raw_files",
        sa.Column("row", sa.Integer, primary_key=True),
        sa.Column(
            "experiment_id",
            sa.String(200),
            sa.ForeignKey("experiments.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("raw_dir", sa.Text, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    for column in ("experiment_id", "sha256"):
        op.create_index(f"ix_raw_files_{column}", "raw_files", [column])
