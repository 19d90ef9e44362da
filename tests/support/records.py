"""Records of an experiment and its trials, to fill a store with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from perfrunner.results import ExperimentRecord, TrialRecord

NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=timezone.utc)


def experiment(identifier="e1", name="demo", minutes=0, **changes):
    record = ExperimentRecord(
        id=identifier, name=name, spec_json={"margins": {"ops_per_s": 0.01}}, spec_text="name: demo\n",
        spec_path="demo.yaml", seed=2**62, created_at=NOW + timedelta(minutes=minutes), tool_version="0.1",
        facts={"hosts": {"a": {"cpus": 2}}},
    )  # fmt: skip
    return replace(record, **changes)


def trial(block=1, variant="glibc", **changes):
    record = TrialRecord(
        block=block, attempt=1, position=2, workload="pillowfight", bucket="persistent", variant=variant,
        build_id="b1", status="ok", reason="", started_at=NOW, finished_at=NOW + timedelta(seconds=5),
        metrics={"ops_per_s": 1.5e6}, facts={"note": "ü"}, raw_dir="e1/trials/x",
    )  # fmt: skip
    return replace(record, **changes)


def plant(store, statement, **values):
    """Write past the store, as anybody can who may write to its database."""
    with store._engine.begin() as connection:
        connection.execute(statement.values(**values))
