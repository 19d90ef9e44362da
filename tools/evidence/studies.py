"""Define the experiments of each study, as documents of ordinary specs.

All of them run the quickstart's workloads on the quickstart's engine; a study defines only its changes. `pairs` are
the variants that are compared with each other, baseline first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from perfrunner.analysis.account import BACKGROUND, PARTS

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
# Injected faults whose size the environment gives, in thousandths of time, and seconds of load that they need.
SIZED = {
    "share": 0.0,
    "background": 0.0,
    "burst": 0.0,
    "burst5s": 3.0,
    "footprint": 0.0,
    "lock": 0.0,
}
# The fault that `perfrunner explain` has to find. It reads the clock in a loop, so the clock is the function that
# changes; without symbols of the vDSO it has no other name. AGAIN is the baseline's build under another name.
EXPLAINED, AGAIN = "share2", "again"
FAULTY = ("__vdso_clock_gettime", "[vdso]")
SIZE_VARIABLE = "KV_INJECTED_PERMILLE"
DOSES = (5, 10, 20, 40, 80)
PER_SECOND = ("background",)  # these burn a share of all time, with or without load
COUNTED = ["injected_us_per_op", "injected_ms_per_s"]
RARE = ["slow_slices", "latency_set_p99_9_us"]
FINE = {
    "ops_per_s": "0.5%"
}  # the margin where a rare stall is to be named: it costs a fifth of a per cent


@dataclass(frozen=True)
class Load:
    """The load: `seconds` on a variant in a block, after a `ramp` that does not count; `slice` is in seconds."""

    seconds: float
    ramp: float = 0.2
    blocks: int = 10
    slice: float = 0.002


@dataclass(frozen=True)
class Planned:
    """One experiment of a study.

    `pairs`: each a baseline and the variants that are compared with it. `metrics`: those that are kept.
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
    """The parts of the quickstart's spec, with absolute file names."""

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
        """Return a pillowfight workload with this load."""
        return {
            **self.pillowfight,
            "schedule": "interleaved",
            "ramp": load.ramp,
            "duration": round(load.ramp + load.seconds, 6),
            "slice": load.slice,
            "settle": 0,
            **changes,
        }


@dataclass(frozen=True)
class Common:
    """The settings that the variants and workloads of an experiment share."""

    base: Base
    bucket: str
    load: Load
    relink: str

    def document(
        self,
        name: str,
        variants: Mapping[str, Any],
        workloads: Mapping[str, Any],
        primary: Sequence[str] = PRIMARY,
    ) -> dict[str, Any]:
        """Return the experiment's spec; the first variant is the baseline."""
        return {
            "name": name,
            "description": "evidence for docs/explanation/accuracy.md",
            "cluster": self.base.cluster,
            "baseline": next(iter(variants)),
            "variants": {key: dict(variant) for key, variant in variants.items()},
            "engine": dict(self.base.engine),
            "relink": self.relink,
            "buckets": [self.bucket],
            "workloads": dict(workloads),
            "blocks": self.load.blocks,
            "seed": _seed(name),
            "primary": list(primary),
            "sampling_check": False,
        }


def aa(
    base: Base,
    *,
    bucket: str,
    comparisons: int,
    variants: int,
    load: Load,
    relink: str = "auto",
    label: str = "",
) -> Iterator[Planned]:
    """Plan A/A comparisons of one build in disjoint pairs of names, which are independent of each other."""
    return _aa(Common(base, bucket, load, relink), "aa", comparisons, variants, label)


def _aa(
    common: Common, study: str, comparisons: int, variants: int, label: str
) -> Iterator[Planned]:
    pairs = variants // 2
    load, prefix = common.load, [study, *([label] if label else []), common.bucket]
    for number in range(1, -(-comparisons // pairs) + 1):
        names = [(f"a{n}", f"b{n}") for n in range(1, pairs + 1)]
        yield Planned(
            study,
            common.document(
                "-".join(("evidence", *prefix, f"{number:03d}")),
                {name: SYSTEM for pair in names for name in pair},
                {"pillowfight": common.base.loaded(load)},
            ),
            names[: comparisons - (number - 1) * pairs],
            [*PRIMARY, "slow_slices"],
            {
                "load_s": load.seconds,
                "slice_s": load.slice,
                "relink": common.relink,
                "label": label,
            },
        )


def relink(
    base: Base, *, bucket: str, comparisons: int, variants: int, load: Load
) -> Iterator[Planned]:
    """Plan A/A comparisons of one source: with one layout for all variants, and with a layout per variant and block."""
    for how in ("never", "shuffle"):
        yield from _aa(Common(base, bucket, load, how), "relink", comparisons, variants, how)


def injected(
    base: Base, *, bucket: str, experiments: int, load: Load, relink: str
) -> Iterator[Planned]:
    """Plan engines with an injected fault against one without, then those whose fault is memory."""
    for number in range(1, experiments + 1):
        yield _injected(
            Common(base, bucket, load, relink),
            f"evidence-injected-{bucket}-{number:03d}",
            ("none", *SHARES, "stall"),
            base.loaded(load),
            PRIMARY,
        )


def injected_memory(base: Base, *, bucket: str, load: Load, relink: str) -> Iterator[Planned]:
    """Plan the faults `bytes16` and `leak` on few documents, so that the leak is a large part of the memory."""
    items = 10_000
    yield _injected(
        Common(base, bucket, load, relink),
        f"evidence-injected-memory-{bucket}",
        ("none", "bytes16", "leak"),
        base.loaded(load, items=items),
        MEMORY,
        items=items,
    )


def explain(
    base: Base, *, bucket: str, experiments: int, load: Load, relink: str
) -> Iterator[Planned]:
    """Plan a build against itself and against one with a fault in one function, with a profile of every block."""
    for number in range(1, experiments + 1):
        name = f"evidence-explain-{bucket}-{number:03d}"
        document = Common(base, bucket, load, relink).document(
            name,
            {
                variant: {**SYSTEM, "options": {"injected": fault}}
                for variant, fault in (("none", "none"), (AGAIN, "none"), (EXPLAINED, EXPLAINED))
            },
            {"pillowfight": base.loaded(load, profile="perf")},
            PRIMARY[:1],
        )
        yield Planned(
            "explain",
            document,
            [("none", AGAIN, EXPLAINED)],
            PRIMARY,
            {"load_s": load.seconds, "slice_s": load.slice, "relink": relink},
        )


def account(
    base: Base,
    *,
    bucket: str,
    faults: Sequence[str],
    sweep: Sequence[float],
    load: Load,
    relink: str,
) -> Iterator[Planned]:
    """Plan each fault in five sizes next to a build without it, with slices of each length."""
    for fault in faults:
        for slice_s in sweep:
            yield _account(Common(base, bucket, _sliced(load, slice_s), relink), fault)


def _account(common: Common, fault: str) -> Planned:
    long_load = replace(common.load, seconds=max(common.load.seconds, SIZED[fault]))
    length = "" if long_load.slice == Load.slice else f"-{round(long_load.slice * 1e6)}us"
    doses = {f"{fault}-{dose}": dose for dose in DOSES}
    document = replace(common, load=long_load).document(
        f"evidence-account-{common.bucket}-{fault}{length}",
        {
            "none": {**SYSTEM, "options": {"injected": "none"}},
            **{
                name: {
                    **SYSTEM,
                    "options": {"injected": fault},
                    "env": {SIZE_VARIABLE: str(dose)},
                }
                for name, dose in doses.items()
            },
        },
        {"pillowfight": common.base.loaded(long_load)},
        PRIMARY[:1],
    )
    return Planned(
        "account",
        document,
        [("none", *doses)],
        [*PRIMARY, "total_cpu_us_per_op", BACKGROUND, *PARTS, *COUNTED],
        {
            "load_s": long_load.seconds,
            "slice_s": long_load.slice,
            "relink": common.relink,
            "fault": fault,
        },
    )


def _sliced(load: Load, slice_s: float) -> Load:
    """Return the load in slices of this length, with a ramp of at least four of them."""
    return replace(load, slice=slice_s, ramp=max(load.ramp, 4 * slice_s))


def slices(
    base: Base, *, bucket: str, sweep: Sequence[float], load: Load, relink: str
) -> Iterator[Planned]:
    """Plan the same comparison with slices of several lengths."""
    for seconds in sweep:
        sized = _sliced(load, seconds)
        yield Planned(
            "slices",
            Common(base, bucket, sized, relink).document(
                f"evidence-slices-{bucket}-{round(seconds * 1e6)}us",
                {"glibc": SYSTEM, "jemalloc-5.1.0": JEMALLOC},
                {"pillowfight": base.loaded(sized)},
            ),
            [("glibc", "jemalloc-5.1.0")],
            [*PRIMARY, "slow_slices"],
            {"load_s": load.seconds, "slice_s": seconds, "relink": relink},
        )


def memory(base: Base, *, load: Load) -> Iterator[Planned]:
    """Plan the same cases interleaved and sequential, with the same keys, values and operations per block."""
    common = Common(base, "persistent", load, "never")
    alone = {
        **base.loaded(load),
        "ramp": load.ramp,
        "duration": load.ramp + load.seconds,
        "settle": 1,
    }
    for schedule in ("interleaved", "sequential"):
        yield Planned(
            "memory",
            {
                **common.document(
                    f"evidence-memory-{schedule}",
                    {"glibc": SYSTEM, "jemalloc-5.1.0": JEMALLOC},
                    {
                        "pillowfight": {**alone, "schedule": schedule},
                        "append": {**base.append, "schedule": schedule},
                    },
                    MEMORY,
                ),
                "buckets": ["persistent", "ephemeral"],
                "seed": _seed("evidence-memory"),  # of both: their blocks are paired
            },
            [("glibc", "jemalloc-5.1.0")],
            MEMORY,
            {"load_s": load.seconds, "schedule": schedule},
        )


def _injected(
    common: Common,
    name: str,
    faults: Sequence[str],
    workload: Mapping[str, Any],
    primary: Sequence[str],
    **facts: Any,
) -> Planned:
    document = common.document(
        name,
        {fault: {**SYSTEM, "options": {"injected": fault}} for fault in faults},
        {"pillowfight": workload},
        primary,
    )
    return Planned(
        "injected",
        {**document, "margins": FINE},
        [faults],
        [*PRIMARY, *RARE, *MEMORY],
        {
            "load_s": common.load.seconds,
            "slice_s": common.load.slice,
            "relink": common.relink,
            "margins": FINE,
            **facts,
        },
    )


def _seed(name: str) -> int:
    """Return the seed of an experiment, derived from its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
