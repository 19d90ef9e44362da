"""The first version. A new store is made with the current tables (perfrunner/results/schema.py)."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Do nothing: all other versions start from this one."""
