"""The first tables. Stores are made with today's (perfrunner/results/schema.py), so nothing is left to do."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Where every other begins."""
