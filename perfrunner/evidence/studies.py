"""The studies: for each the experiments it consists of, as the documents of ordinary specs.

All of them drive the quickstart's workloads on the quickstart's engine; a study says only what it changes. `pairs` are
the arms that are compared with each other, baseline first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SYSTEM: Mapping[str, Any] = {"allocator": {"name": "system"}}
JEMALLOC: Mapping[str, Any] = {"allocator": {"name": "jemalloc-5.1.0"}}
SHARES = {"share1": 0.01, "share2": 0.02}  # of a front-end thread's time, added to it
PRIMARY = ["ops_per_s", "ops_per_s_total", "server_cpu_us_per_op"]
MEMORY = ["fragmentation_rss", "rss_bytes", "mem_used_bytes"]
# By fault and metric: a closed loop whose every cycle is longer by that share.
BY_CONSTRUCTION = {
    (fault, metric): 1 / (1 + share)
    for fault, share in SHARES.items()
    for metric in ("ops_per_s", "ops_per_s_total")
}
RARE = ["slow_slices", "latency_set_p99_9_us"]
FINE = {
    "ops_per_s": "0.5%"
}  # the margin where a rare stall is to be named: it costs a fifth of a per cent


@dataclass(frozen=True)
class Load:
    """How long and how often: seconds of load on an arm in a block, and before them seconds that do not count."""

    seconds: float
    ramp: float = 0.2
    blocks: int = 10
    slice: float = 0.002


@dataclass(frozen=True)
class Planned:
    """One experiment of a study.

    `pairs`: baseline and the arms that are compared with it, apart from each other. `metrics`: those that are kept.
    """

    study: str
    document: Mapping[str, Any]
    pairs: Sequence[Sequence[str]]
    metrics: Sequence[str]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.document["name"])


@dataclass(frozen=True)
class Base:
    """What the quickstart's spec says, with its file names made absolute."""

    engine: Mapping[str, Any]
    pillowfight: Mapping[str, Any]
    append: Mapping[str, Any]
    cluster: str

    @classmethod
    def read(cls, quickstart: Path, cluster: Path | None = None) -> Base:
        spec = yaml.safe_load(quickstart.read_text(encoding="utf-8"))
        near = quickstart.resolve().parent
        workloads = {
            name: {**workload, "use": str((near / workload["use"]).resolve())}
            for name, workload in spec["workloads"].items()
        }
        chosen = near / spec["cluster"] if cluster is None else cluster
        return cls(
            engine=spec["engine"],
            pillowfight=workloads["pillowfight"],
            append=workloads["append"],
            cluster=str(chosen.resolve()),
        )

    def loaded(self, load: Load, **changes: Any) -> dict[str, Any]:
        """Pillowfight for so long."""
        return {
            **self.pillowfight,
            "schedule": "side-by-side",
            "ramp": load.ramp,
            "duration": round(load.ramp + load.seconds, 6),
            "slice": load.slice,
            "settle": 0,
            **changes,
        }


def aa(
    base: Base,
    *,
    bucket: str,
    comparisons: int,
    arms: int,
    load: Load,
    relink: str = "auto",
    study: str = "aa",
    label: str = "",
) -> Iterator[Planned]:
    """One build under many names, compared in disjoint pairs, so that the comparisons are independent of each other."""
    pairs = arms // 2
    for number in range(1, -(-comparisons // pairs) + 1):
        names = [(f"a{n}", f"b{n}") for n in range(1, pairs + 1)]
        yield Planned(
            study,
            _document(
                base,
                name="-".join(
                    ("evidence", study, *([label] if label else []), bucket, f"{number:03d}")
                ),
                variants={name: SYSTEM for pair in names for name in pair},
                bucket=bucket,
                workloads={"pillowfight": base.loaded(load)},
                load=load,
                relink=relink,
            ),
            names[: comparisons - (number - 1) * pairs],
            [*PRIMARY, "slow_slices"],
            {"load_s": load.seconds, "slice_s": load.slice, "relink": relink, "label": label},
        )


def relink(
    base: Base, *, bucket: str, comparisons: int, arms: int, load: Load
) -> Iterator[Planned]:
    """The A/A of one source, with one layout for all arms, and with a layout of its own for each arm and block."""
    for how in ("never", "shuffle"):
        yield from aa(
            base,
            bucket=bucket,
            comparisons=comparisons,
            arms=arms,
            load=load,
            relink=how,
            study="relink",
            label=how,
        )


def planted(
    base: Base, *, bucket: str, experiments: int, load: Load, relink: str
) -> Iterator[Planned]:
    """Engines with a known fault beside one without; then those whose fault is memory."""
    for number in range(1, experiments + 1):
        yield _planted(
            base,
            f"evidence-planted-{bucket}-{number:03d}",
            ("none", *SHARES, "stall"),
            bucket,
            base.loaded(load),
            load,
            relink,
            PRIMARY,
        )


def planted_memory(base: Base, *, bucket: str, load: Load, relink: str) -> Iterator[Planned]:
    """16 bytes more an item and a leak, on few documents, so that what leaks is no small part of them."""
    items = 10_000
    yield _planted(
        base,
        f"evidence-planted-memory-{bucket}",
        ("none", "bytes16", "leak"),
        bucket,
        base.loaded(load, items=items),
        load,
        relink,
        MEMORY,
        items=items,
    )


def slices(
    base: Base, *, bucket: str, sweep: Sequence[float], load: Load, relink: str
) -> Iterator[Planned]:
    """The same comparison with slices of several lengths."""
    for seconds in sweep:
        its = Load(load.seconds, max(load.ramp, 4 * seconds), load.blocks, seconds)
        yield Planned(
            "slices",
            _document(
                base,
                name=f"evidence-slices-{bucket}-{round(seconds * 1e6)}us",
                variants={"glibc": SYSTEM, "jemalloc-5.1.0": JEMALLOC},
                bucket=bucket,
                workloads={"pillowfight": base.loaded(its)},
                load=its,
                relink=relink,
            ),
            [("glibc", "jemalloc-5.1.0")],
            [*PRIMARY, "slow_slices"],
            {"load_s": load.seconds, "slice_s": seconds, "relink": relink},
        )


def memory(base: Base, *, load: Load) -> Iterator[Planned]:
    """The same cells side by side and one after the other: the same keys, values and operations in each block."""
    alone = {
        **base.loaded(load),
        "ramp": load.ramp,
        "duration": load.ramp + load.seconds,
        "settle": 1,
    }
    for schedule in ("side-by-side", "sequential"):
        yield Planned(
            "memory",
            {
                **_document(
                    base,
                    name=f"evidence-memory-{schedule}",
                    variants={"glibc": SYSTEM, "jemalloc-5.1.0": JEMALLOC},
                    bucket="persistent",
                    workloads={
                        "pillowfight": {**alone, "schedule": schedule},
                        "append": {**base.append, "schedule": schedule},
                    },
                    load=load,
                    relink="never",
                    primary=MEMORY,
                ),
                "buckets": ["persistent", "ephemeral"],
                "seed": _seed("evidence-memory"),  # of both: their blocks are paired
            },
            [("glibc", "jemalloc-5.1.0")],
            MEMORY,
            {"load_s": load.seconds, "schedule": schedule},
        )


def _planted(
    base: Base,
    name: str,
    faults: Sequence[str],
    bucket: str,
    workload: Mapping[str, Any],
    load: Load,
    relink: str,
    primary: Sequence[str],
    **facts: Any,
) -> Planned:
    document = _document(
        base,
        name=name,
        variants={fault: {**SYSTEM, "options": {"planted": fault}} for fault in faults},
        bucket=bucket,
        workloads={"pillowfight": workload},
        load=load,
        relink=relink,
        primary=primary,
    )
    return Planned(
        "planted",
        {**document, "margins": FINE},
        [faults],
        [*PRIMARY, *RARE, *MEMORY],
        {
            "load_s": load.seconds,
            "slice_s": load.slice,
            "relink": relink,
            "margins": FINE,
            **facts,
        },
    )


def _document(
    base: Base,
    *,
    name: str,
    variants: Mapping[str, Any],
    bucket: str,
    workloads: Mapping[str, Any],
    load: Load,
    relink: str,
    primary: Sequence[str] = PRIMARY,
) -> dict[str, Any]:
    return {
        "name": name,
        "description": "evidence for docs/statistics.md",
        "cluster": base.cluster,
        "baseline": next(iter(variants)),
        "variants": {key: dict(variant) for key, variant in variants.items()},
        "engine": dict(base.engine),
        "relink": relink,
        "buckets": [bucket],
        "workloads": dict(workloads),
        "blocks": load.blocks,
        "seed": _seed(name),
        "primary": list(primary),
        "sampling_check": False,
    }


def _seed(name: str) -> int:
    """Each experiment has its own, and a repetition of it the same one."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
