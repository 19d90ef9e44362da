"""A store whose trials ran side by side: slices in a host's red noise, variants of known speed, one with rare stalls.

As a script it writes a store to look at:  python synthetic_slices.py DIR [BLOCKS]
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import synthetic

from perfrunner.measure.slices import Slices, levels
from perfrunner.results import ResultStore, TrialRecord

VARIANTS = synthetic.VARIANTS
SPEED = {VARIANTS[1]: 1.01, VARIANTS[2]: 1.0}  # against the first
STALLED = VARIANTS[2]
SLICE_S = 0.002


@dataclass
class Shape:
    """What to simulate. `groups`: the variants next to the baseline, by group."""

    blocks: int = 8
    rounds: int = 400
    stall: float = 0.004  # share of the stalled variant's slices that take 12 times as long
    groups: tuple[tuple[str, ...], ...] = (VARIANTS[1:],)
    workloads: tuple[str, ...] = ("pillowfight",)
    buckets: tuple[str, ...] = ("persistent",)
    relinked: bool = False
    seed: int = 5
    facts: dict[str, object] = field(default_factory=dict)


def write(
    directory: Path, shape: Shape | None = None, experiment_id: str = "turns-20261122"
) -> str:
    """Fill the store in `directory`; returns the experiment's id."""
    shape = shape or Shape()
    rng = np.random.default_rng(shape.seed)
    variants = 1 + max(len(group) for group in shape.groups)
    why = "limits.group_size is 2" if len(shape.groups) > 1 else ""
    groupings = {
        w: {"schedule": "interleaved", "group_size": variants, "why": why} for w in shape.workloads
    }
    outer = synthetic.Shape(
        workloads=shape.workloads,
        buckets=shape.buckets,
        blocks=shape.blocks,
        seed=shape.seed,
        facts={"groupings": groupings, **shape.facts},
    )
    with ResultStore.open(directory) as store:
        store.create_experiment(synthetic._experiment(outer, experiment_id))
        for variant in VARIANTS:
            store.add_build(experiment_id, synthetic._build(variant))
        trials = []
        for block in range(1, shape.blocks + 1):
            for workload in shape.workloads:
                for bucket in shape.buckets:
                    for group, members in enumerate(shape.groups, 1):
                        names = [str(v) for v in rng.permutation([VARIANTS[0], *members])]
                        place = (block, workload, bucket, group)
                        for trial, slices in _group(rng, shape, place, names, experiment_id):
                            _keep(rng, directory / trial.raw_dir, trial, slices)
                            trials.append(trial)
        store.add_trials(experiment_id, trials)
        store.set_state(experiment_id, "done")
    return experiment_id


def _group(rng, shape, place, names, experiment_id):
    block, workload, bucket, group = place
    slices = _slices(rng, shape, names)
    rates = np.column_stack([single.rates for single in slices])
    level = levels(rates, names.index(VARIANTS[0]))
    started = synthetic.START + timedelta(seconds=60 * block + 20 * group)
    for slot, (variant, own) in enumerate(zip(names, slices, strict=True), 1):
        metrics = {
            "ops_per_s": float(level[slot - 1]),
            "ops_per_s_total": float(own.ops.sum() / (own.wall_ns.sum() * 1e-9)),
            "slow_slices": 100.0 * own.slow_share,
            **_parts(own),
            "mem_used_bytes": 310e6,
            "rss_bytes": 395e6 * float(np.exp(rng.normal(0, 0.01))),
        }
        facts = {
            "schedule": "interleaved", "slot": slot, "variants": names, "baseline": VARIANTS[0],
            "cpus": {"engine": "0", "client": "1"}, "slice": SLICE_S, "rounds": shape.rounds,
            "warmup_rounds": 120, "round_seed": 7, **({"relinked": block} if shape.relinked else {}),
        }  # fmt: skip
        yield TrialRecord(
            block=block, attempt=1, position=slot, workload=workload, bucket=bucket, variant=variant,
            build_id=synthetic._build(variant).build_id, status="ok", reason="", started_at=started,
            finished_at=started + timedelta(seconds=18), metrics=metrics, facts=facts, group=group,
            raw_dir=f"{experiment_id}/trials/{block}-{workload}-{bucket}-{group}-{variant}",
        ), own  # fmt: skip


def _parts(own: Slices) -> dict[str, float]:
    """Half of a slice is the server's CPU, a third the load's; a tenth of a µs per operation is left to others."""
    time = float(own.wall_ns.sum() / own.ops.sum()) / 1e3
    return {
        "own_cpu_us_per_op": time / 2,
        "client_cpu_us_per_op": time / 3,
        "foreign_cpu_us_per_op": 0.01,
        "waiting_us_per_op": time / 6 - 0.01,
        "background_cpu_us_per_op": 0.1,
        "total_cpu_us_per_op": time / 2 + 0.1,
    }


def _slices(rng, shape, names) -> list[Slices]:
    """Red noise by turns: neighbouring slices are alike, distant ones are not."""
    turns = shape.rounds * len(names)
    steps = rng.normal(0, 0.02, turns)
    host = np.zeros(turns)
    for n in range(1, turns):
        host[n] = 0.99 * host[n - 1] + steps[n]
    order = np.array([rng.permutation(len(names)) for _ in range(shape.rounds)])
    wall = np.zeros((shape.rounds, len(names)), dtype=np.int64)
    ops = np.full_like(wall, 4000)
    for variant, name in enumerate(names):
        position = np.argmax(order == variant, axis=1)
        noise = host[np.arange(shape.rounds) * len(names) + position]
        speed = SPEED.get(name, 1.0) * np.exp(rng.normal(0, 0.003))  # luck of the process
        time = SLICE_S * np.exp(noise + rng.normal(0, 0.06, shape.rounds)) / speed
        if name == STALLED:
            time *= np.where(rng.random(shape.rounds) < shape.stall, 12.0, 1.0)
        wall[:, variant] = time * 1e9
    starts = np.zeros_like(wall)
    now = 0
    for n in range(shape.rounds):
        for variant in order[n]:
            starts[n, variant] = now
            now += wall[n, variant]
    positions = np.argsort(order, axis=1)
    return [
        Slices(
            start_ns=starts[:, variant],
            wall_ns=wall[:, variant],
            ops=ops[:, variant],
            client_cpu_ns=wall[:, variant] // 3,
            position=positions[:, variant],
            cpu_ns=wall[:, variant] // 2,
        )
        for variant in range(len(names))
    ]


def _keep(rng, directory: Path, trial: TrialRecord, slices: Slices) -> None:
    """As synthetic.py's, but a load tool that takes turns reports no series by the second."""
    synthetic._raw(rng, directory, trial)
    report = directory / "client.json"
    document = json.loads(report.read_text())
    document["access" if trial.workload == "pillowfight" else "update"]["series"] = []
    report.write_text(json.dumps(document))
    (directory / "slices.json").write_text(json.dumps(slices.document()))


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    write(Path(sys.argv[1]), Shape(blocks=count, rounds=2000))
