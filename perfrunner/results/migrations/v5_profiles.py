"""Profiles: `blocks` of a workload becomes `perf`, which recorded no trial before; one of an allocator is a preset."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from perfrunner.results import legacy

revision = "5"
down_revision = "4"

RECORDED = {"perf": None, "blocks": "perf"}


def upgrade() -> None:
    """Translate the specs row by row, in the caller's transaction."""
    connection = op.get_bind()
    experiments = sa.table("experiments", sa.column("id"), sa.column("spec_json", sa.JSON))
    for row in connection.execute(sa.select(experiments)).all():
        spec = _recorded(legacy.current_spec(row.spec_json))
        if spec != row.spec_json:
            update = sa.update(experiments).where(experiments.c.id == row.id)
            connection.execute(update.values(spec_json=spec))


def _recorded(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a stored spec whose workloads have today's `profile`."""
    if not isinstance(spec.get("workloads"), dict):
        return spec
    workloads = {name: _workload(value) for name, value in spec["workloads"].items()}
    return {**spec, "workloads": workloads}


def _workload(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("profile") not in RECORDED:
        return value
    return {**value, "profile": RECORDED[value["profile"]]}
