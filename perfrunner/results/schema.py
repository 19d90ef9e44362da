"""Define the tables, and the schema version that this code knows.

A trial is one row with its metrics as JSON: it is written once and always read as a whole. Ten thousand rows
load in well under a second; a row per metric would take longer.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

SCHEMA_VERSION = 5  # the newest revision in results/migrations


class UtcDateTime(TypeDecorator[datetime]):
    """A column of aware times. They are returned in UTC, because SQLite stores no time zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert an aware time to naive UTC. Raises ValueError for a naive time."""
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"cannot store a time without a time zone: {value.isoformat()}")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert a naive UTC time to an aware one."""
        del dialect
        return None if value is None else value.replace(tzinfo=timezone.utc)


metadata = MetaData()

schema_table = Table(
    "perfrunner_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("name", String(200), nullable=False, index=True),
    Column("spec_json", JSON, nullable=False),
    Column("spec_text", Text, nullable=False),
    Column("spec_path", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("tool_version", String(100), nullable=False),
    Column("facts", JSON, nullable=False),
    Column("state", String(20), nullable=False),
)


def _owner() -> Column[str]:
    return Column(
        "experiment_id",
        ForeignKey("experiments.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    )


builds = Table(
    "builds",
    metadata,
    Column("row", Integer, primary_key=True),
    _owner(),
    Column("variant", String(200), nullable=False),
    Column("build_id", String(200), nullable=False),
    Column("path", Text, nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("provenance", JSON, nullable=False),
    Column("settings", JSON, nullable=False),
    UniqueConstraint("experiment_id", "variant", name="one_build_a_variant"),
)

trials = Table(
    "trials",
    metadata,
    Column("row", Integer, primary_key=True),
    _owner(),
    Column("block", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("workload", String(200), nullable=False),
    Column("bucket", String(50), nullable=False),
    Column("variant", String(200), nullable=False),
    Column("build_id", String(200), nullable=False),
    Column("status", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("raw_dir", Text, nullable=False),
    Column("group", Integer, nullable=False, server_default="0"),
    UniqueConstraint(
        "experiment_id",
        "block",
        "attempt",
        "workload",
        "bucket",
        "variant",
        "group",
        name="one_trial_a_place",
    ),
)

raw_files = Table(  # digests of the files of trials (results/files.py stores the contents)
    "raw_files",
    metadata,
    Column("row", Integer, primary_key=True),
    _owner(),
    Column("raw_dir", Text, nullable=False),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False, index=True),
    Column("bytes", BigInteger, nullable=False),
)
