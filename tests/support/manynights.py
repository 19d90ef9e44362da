"""A store as a fleet fills it: the groups' runs of the same specs, night after night, with plausible trials."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, insert

from perfrunner.results import BuildRecord, ExperimentRecord, ResultStore
from perfrunner.results.schema import builds, experiments, trials

WORKLOADS, BUCKETS, VARIANTS = (
    ("pillowfight", "append"),
    ("persistent", "ephemeral"),
    ("base", "a", "b", "c", "d"),
)
BLOCKS = 5  # times workloads, buckets and variants: a hundred trials a run
BEGAN = datetime(2026, 1, 1, 22, tzinfo=timezone.utc)


def fill(store: ResultStore, groups: int, specs: int = 10, padding: int = 20_000) -> None:
    """Store a run of 100 trials for each group. `padding`: bytes of host facts, as with many hosts."""
    draw = random.Random(7)
    with store._transaction() as connection:
        for number in range(groups):
            _run(connection, number, f"spec-{number % specs}", draw, padding)


def _run(connection: Connection, number: int, spec: str, draw: random.Random, padding: int) -> None:
    began = BEGAN + timedelta(minutes=10 * number)
    record = ExperimentRecord(
        id=f"{spec}-{began:%Y%m%d-%H%M%S}", name=spec, seed=number, created_at=began, spec_text="name: x\n",
        spec_path=f"/srv/specs/{spec}.yaml", tool_version="1", state="done",
        spec_json={"name": spec, "baseline": "base", "primary": ["ops_per_s"],
                   "margins": {"ops_per_s": 0.01}, "variants": {variant: {} for variant in VARIANTS}},
        facts={"hosts": {f"kv-{number}": {"cpus": 64, "kernel": "6.1", "rest": "x" * padding}}},
    )  # fmt: skip
    connection.execute(insert(experiments).values(**vars(record)))
    connection.execute(
        insert(builds),
        [
            {**vars(BuildRecord(variant, f"build-{variant}")), "experiment_id": record.id}
            for variant in VARIANTS
        ],
    )
    rows = []
    for block in range(1, BLOCKS + 1):
        for workload in WORKLOADS:
            for bucket in BUCKETS:
                for position, variant in enumerate(VARIANTS):
                    ops = draw.gauss(1e6, 1e4)
                    begun = began + timedelta(seconds=len(rows))
                    rows.append({
                        "experiment_id": record.id, "block": block, "attempt": 1, "position": position,
                        "workload": workload, "bucket": bucket, "variant": variant, "build_id": f"build-{variant}",
                        "status": "ok", "reason": "", "started_at": begun, "group": 0,
                        "finished_at": begun + timedelta(seconds=9), "raw_dir": f"{record.id}/trials/{len(rows)}",
                        "facts": {"schedule": "interleaved", "context": {}},
                        "metrics": {"ops_per_s": ops, **{f"latency_get_p{n}_us": ops / 1e4 + n for n in range(1, 30)}},
                    })  # fmt: skip
    connection.execute(insert(trials), rows)
