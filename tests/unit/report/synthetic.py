"""A realistic store without an engine: trials with block effects, drift, known changes, raw files.

As a script it writes a store to look at:  python synthetic.py DIR [BLOCKS]
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from perfrunner.report import build_report
from perfrunner.report.page import html_text
from perfrunner.results import BuildRecord, ExperimentRecord, ResultStore, TrialRecord
from perfrunner.results.raw import RawSeries

START = datetime(2026, 11, 20, 22, 0, tzinfo=timezone.utc)
VARIANTS = ("glibc", "jemalloc-5.1.0", "jemalloc-5.1.0,metadata_thp=always")
LEVELS = {
    "ops_per_s": 1.83e6,
    "ops_per_s_p90": 1.9e6,
    "latency_get_p50_us": 210.0,
    "latency_get_p99_us": 412.0,
    "latency_set_p50_us": 260.0,
    "latency_set_p99_us": 590.0,
    "server_cpu_us_per_op": 1.04,
    "client_cpu_us_per_op": 0.31,
    "mem_used_bytes": 310e6,
    "rss_bytes": 395e6,
    "rss_plain_bytes": 397e6,
    "pss_bytes": 394e6,
    "vsz_bytes": 1.9e9,
    "anon_huge_bytes": 0.0,
    "fragmentation_rss": 21.2,
    "fragmentation_rss_now": 20.4,
    "fragmentation_rss_settled": 19.9,
}
JEMALLOC_ONLY = {
    "mapped_bytes": 402e6,
    "fragmentation_mapped": 21.8,
    "metadata_bytes": 9.5e6,
    "metadata_thp_pages": 0.0,
}
# variant -> metric -> factor (or shift, for percentages and absolute figures)
CHANGES = {
    VARIANTS[1]: {"ops_per_s": 1.012, "latency_get_p99_us": 0.97, "fragmentation_rss": -3.0,
                  "fragmentation_rss_now": -2.5, "fragmentation_rss_settled": -2.8},
    VARIANTS[2]: {"ops_per_s": 1.031, "latency_get_p99_us": 0.95, "fragmentation_rss": 3.3,
                  "fragmentation_rss_now": 3.6, "fragmentation_rss_settled": 3.1,
                  "fragmentation_mapped": 9.8, "metadata_thp_pages": 5.0,
                  "anon_huge_bytes": 10.0 * 2**20, "server_cpu_us_per_op": 0.98},
}  # fmt: skip


def plain_page(data):
    """The text of the page without pictures: to draw them takes seconds."""
    return html_text(build_report(data), data, RawSeries(), (), None)


@dataclass
class Shape:
    """What to simulate."""

    variants: tuple[str, ...] = VARIANTS
    workloads: tuple[str, ...] = ("pillowfight", "append")
    buckets: tuple[str, ...] = ("persistent", "ephemeral")
    blocks: int = 8
    sd: float = 0.008
    seed: int = 41
    discarded_block: int | None = 3
    facts: dict[str, object] = field(default_factory=dict)


def write(directory: Path, shape: Shape | None = None, experiment_id: str = "demo-20261120") -> str:
    """Fill the store in `directory`; returns the experiment's id."""
    shape = shape or Shape()
    rng = np.random.default_rng(shape.seed)
    with ResultStore.open(directory) as store:
        store.create_experiment(_experiment(shape, experiment_id))
        for variant in shape.variants:
            store.add_build(experiment_id, _build(variant))
        trials: list[TrialRecord] = []
        for block in range(1, shape.blocks + 1):
            for attempt in (1, 2) if block == shape.discarded_block else (1,):
                for workload in shape.workloads:
                    for bucket in shape.buckets:
                        spoiled = attempt == 1 and block == shape.discarded_block
                        if attempt == 2 and (workload, bucket) != (
                            shape.workloads[0],
                            shape.buckets[0],
                        ):
                            continue
                        spoiled = spoiled and (workload, bucket) == (
                            shape.workloads[0],
                            shape.buckets[0],
                        )
                        common = rng.normal(0, 2 * shape.sd)
                        for position, variant in enumerate(
                            rng.permutation(list(shape.variants)), 1
                        ):
                            trial = _trial(
                                rng,
                                shape,
                                block,
                                attempt,
                                position,
                                workload,
                                bucket,
                                str(variant),
                                len(trials) + 1,
                                common,
                                experiment_id,
                                discarded=spoiled and variant == shape.variants[-1],
                            )
                            _raw(rng, directory / trial.raw_dir, trial)
                            trials.append(trial)
        store.add_trials(experiment_id, trials)
        store.set_state(experiment_id, "done")
    return experiment_id


def _experiment(shape: Shape, experiment_id: str) -> ExperimentRecord:
    settings = {
        "pillowfight": {"type": "pillowfight", "items": 100000, "set_share": 80.0, "value_size": 256,
                        "batch": 100, "threads": 2, "key_semantics": "random", "duration": 5.0},
        "append": {"type": "append", "items": 20000, "rounds": 5, "in_flight": 100, "settle": 2.0},
    }  # fmt: skip
    spec = {
        "name": "quickstart",
        "description": "glibc against jemalloc 5.1.0, without and with metadata_thp",
        "baseline": shape.variants[0],
        "variants": {
            v: {"name": v, "allocator": {"name": v.split(",")[0].removesuffix("-again")}}
            for v in shape.variants
        },
        "buckets": list(shape.buckets),
        "workloads": {w: settings[w] for w in shape.workloads},
        "blocks": shape.blocks,
        "margins": {"fragmentation_rss": 1.0},
        "primary": ["ops_per_s", "fragmentation_rss"],
    }
    facts: dict[str, object] = {
        "hosts": {"local": {"cpu_model": "AMD EPYC 7B13", "cpus": 2, "memory_bytes": 8_335_000_000,
                            "kernel": "6.1.0-28-amd64", "thp_enabled": "madvise", "governor": "performance"}},
        "preconditions": {"thp_madvise": True},
        **shape.facts,
    }  # fmt: skip
    return ExperimentRecord(
        id=experiment_id,
        name="quickstart",
        spec_json=spec,
        spec_text="name: quickstart\n# <script>alert('a spec is text, never markup')</script>\n",
        spec_path="specs/experiments/quickstart.yaml",
        seed=shape.seed,
        created_at=START,
        tool_version="0.1.0",
        facts=facts,
    )


def _build(variant: str) -> BuildRecord:
    digest = f"{abs(hash_of(variant)):016x}"
    return BuildRecord(
        variant=variant,
        build_id=digest,
        path=f"/var/cache/perfrunner/{digest}",
        cached=variant == VARIANTS[0],
        provenance={"compiler": "g++ 12.2.0", "flags": "-O2 -g", "git": "5d2f1c0", "dirty": False,
                    "allocator": variant},
        settings={"opt.metadata_thp": "always" if variant.endswith("always") else "disabled"},
    )  # fmt: skip


def hash_of(text: str) -> int:
    """Stable, unlike hash()."""
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def _trial(rng, shape, block, attempt, position, workload, bucket, variant, number, common,
           experiment_id, *, discarded):  # fmt: skip
    metrics = {}
    levels = dict(LEVELS) if variant == VARIANTS[0] else {**LEVELS, **JEMALLOC_ONLY}
    changes = CHANGES.get(variant, {})
    drift = 0.004 * math.sin(number / 9)
    if workload == "append":
        levels["ops_per_s"] = 88_000.0
    for name, level in levels.items():
        noise = rng.normal(0, shape.sd)
        if name.startswith("fragmentation"):
            base = level + (18.0 if bucket == "ephemeral" else 0.0)
            metrics[name] = base + changes.get(name, 0.0) + 25 * noise + 8 * common
        elif name in ("anon_huge_bytes", "metadata_thp_pages"):
            metrics[name] = level + changes.get(name, 0.0)
        elif name == "mem_used_bytes":
            metrics[name] = level * math.exp(noise / 20)
        else:
            sign = -1 if "latency" in name or "cpu" in name else 1
            metrics[name] = (
                level * changes.get(name, 1.0) * math.exp(noise + sign * (common + drift))
            )
    started = START + timedelta(seconds=20 * number)
    suffix = f"-{attempt}" if attempt > 1 else ""
    return TrialRecord(
        block=block, attempt=attempt, position=position, workload=workload, bucket=bucket,
        variant=variant, build_id=_build(variant).build_id, status="discarded" if discarded else "ok",
        reason="the load client is saturated: its busiest thread is 98% busy (limit 95%)" if discarded else "",
        started_at=started, finished_at=started + timedelta(seconds=18), metrics=metrics,
        facts={"steady_seconds": 5, "steady_slope": 0.01,
               **({"note": "the rate drifts by +14% over the steady window"} if number == 7 else {})},
        raw_dir=f"{experiment_id}/trials/{block}-{workload}-{bucket}-{variant}{suffix}",
    )  # fmt: skip


def _raw(rng, directory: Path, trial: TrialRecord) -> None:
    directory.mkdir(parents=True)
    rate = trial.metrics["ops_per_s"]
    seconds = 8 if trial.workload == "pillowfight" else 14
    series = []
    for second in range(1, seconds + 1):
        ramp = 0.7 if second == 1 else 1.0
        series.append(
            {"t": float(second), "ops": int(rate * ramp * math.exp(rng.normal(0, 0.015)))}
        )
    ops = sum(point["ops"] for point in series)
    histogram = {"count": 3, "mean": 200.0, "max": 400, "buckets": [[100, 1], [400, 2]]}
    phase = {"ops": ops, "gets": ops // 5, "sets": ops - ops // 5, "misses": 0, "errors": {},
             "seconds": float(seconds), "series": series,
             "latency_ns": {"get": histogram, "set": histogram}}  # fmt: skip
    names = ("populate", "access") if trial.workload == "pillowfight" else ("load", "update")
    if names[1] == "update":
        phase["rmw"] = ops // 2
    document = {
        "tool": trial.workload, "schema": 1, "options": {},
        names[0]: {"ops": 1000, "sets": 1000, "seconds": 0.5, "errors": {}}, names[1]: phase,
        "client": {"cpu_user_s": 1.0, "cpu_sys_s": 0.5, "wall_s": 5.0, "threads": 2, "busiest_thread_busy": 0.6},
    }  # fmt: skip
    (directory / "client.json").write_text(json.dumps(document))
    lines = []
    for second in range(seconds):
        share = 0.4 + 0.6 * min(1.0, second / (seconds - 3))
        used = trial.metrics["mem_used_bytes"] * share
        rss = int(trial.metrics["rss_bytes"] * share * math.exp(rng.normal(0, 0.004)))
        stat = {"mem_used": str(int(used))}
        if "mapped_bytes" in trial.metrics:
            stat["total_heap_bytes"] = str(int(trial.metrics["mapped_bytes"] * share))
        lines.append(json.dumps({
            "t": 1.79e9 + second, "rss": rss, "pss": rss, "pss_file": 0, "lazyfree": 0, "anon_huge": 0,
            "vsz": 1_900_000_000, "stacks_vsz": None, "cpu_user_s": 0.8 * second,
            "cpu_sys_s": 0.2 * second, "threads": 9, "stat": stat,
        }))  # fmt: skip
    (directory / "samples.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    write(Path(sys.argv[1]), Shape(blocks=count))
