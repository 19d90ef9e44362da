"""Compute the memory metrics of a trial, and fragmentation: 100·(1 - used / held), for several definitions.

  used   mem_used  usable sizes charged to the bucket; larger with an allocator that rounds up more
         payload   bytes requested for keys, values and per-item structures; independent of the allocator
  held   mapped    mapped by the allocator, from the same STAT answer at the end of the load
         rss       p99 of RSS over the run, over the value at the end: the historic formula, which mixes instants
         rss_plain the same, including lazily freed pages
         rss_now   RSS at the end of the load
         rss_settled  both after the settle time
         vsz       address space at the end of the load, without thread stacks
  no_store         the memory of the persistence's store (charged to no bucket) is subtracted from held

RSS means Rss - LazyFree. PSS excludes files: how many processes share a variant's files depends on the
experiment (variants of one build, load tools of the baseline's), not on the variant. A value that a server or
an allocator does not report yields no metric; it is absent, not 0.

The readings are the JSON lines of `kvctl sample` (`Sample`). Each line is one instant: /proc of the engine process and
`STAT memory` are read immediately after each other, so that both terms of a fragmentation formula belong together.
Values are bytes and seconds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfrunner.errors import TrialError

MEM_USED = "mem_used"
PAYLOAD = "ep_kv_size"
MAPPED = "total_heap_bytes"
STORE = "ep_store_memory"
ACTIVE = "total_active_bytes"
RESIDENT = "total_resident_bytes"
_ALLOCATOR_METRICS = {
    "mapped_bytes": MAPPED,
    "metadata_bytes": "total_metadata_bytes",
    "metadata_thp_pages": "total_metadata_thp",
    "allocator_frag_bytes": "total_fragmentation_bytes",
    "retained_bytes": "total_retained_bytes",
    "store_bytes": STORE,
}


def fragmentation(used: float, held: float) -> float:
    """Return the percentage of held memory that is not used."""
    if held <= 0:
        raise TrialError(f"fragmentation needs a positive amount of memory held, got {held:g}")
    return 100.0 * (1.0 - used / held)


def memory_metrics(
    run: Sequence[Sample], now: Sample, settled: Sample, *, complete: bool = True
) -> dict[str, float]:
    """Return the metrics that the figures give.

    run: the periodic samples of the measured time; now: the end of the load; settled: after the settling.
    complete: whether a server without `mem_used` is an error; another server than the engine may not have it.
    """
    if not run:
        raise TrialError(
            "the sampler recorded no sample of the run",
            hint="its log is among the trial's raw files",
        )
    # the end of the load belongs to the run; without it a short run would miss its peak
    whole = [*run, now]
    rss_p99 = float(np.percentile([sample.rss_true for sample in whole], 99))
    plain_p99 = float(np.percentile([sample.rss for sample in whole], 99))
    vsz = float(now.vsz - (now.stacks_vsz or 0))
    metrics = {
        "rss_bytes": rss_p99,
        "rss_plain_bytes": plain_p99,
        "vsz_bytes": vsz,
        "anon_huge_bytes": float(now.anon_huge),
    }
    if now.pss_file is not None:
        metrics["pss_bytes"] = float(now.pss - now.pss_file)
    for metric, key in _ALLOCATOR_METRICS.items():
        value = now.stat.get(key)
        if value is not None:
            metrics[metric] = value
    active, resident = now.stat.get(ACTIVE), now.stat.get(RESIDENT)
    if active is not None and resident is not None:
        metrics["allocator_rss_bytes"] = resident - active
    held = {
        "rss": rss_p99,
        "rss_plain": plain_p99,
        "rss_now": float(now.rss_true),
        "vsz": vsz,
        **_without_store(now),
    }
    mapped = now.stat.get(MAPPED)
    if mapped is not None:
        held["mapped"] = mapped
    if not complete and None in (now.stat.get(MEM_USED), settled.stat.get(MEM_USED)):
        return metrics
    metrics |= _fragmentations("fragmentation", _mem_used(now), _mem_used(settled), held, settled)
    payload, payload_settled = now.stat.get(PAYLOAD), settled.stat.get(PAYLOAD)
    if payload is not None and payload_settled is not None:
        _refuse_impossible(payload, _mem_used(now))
        metrics["payload_bytes"] = payload
        metrics |= _fragmentations("fragmentation_payload", payload, payload_settled, held, settled)
    return metrics | {"mem_used_bytes": _mem_used(now)}


def _refuse_impossible(payload: float, used: float) -> None:
    """Raise TrialError if a bucket is charged less than its payload; usable sizes are never below requested ones."""
    if used < payload:
        raise TrialError(
            f"STAT memory gave {MEM_USED} {used:.0f} for a payload of {payload:.0f} bytes ({PAYLOAD}):"
            " memory in use cannot be less than the stored payload",
            hint="this revision has a fault: it credits the bucket for memory that was never charged",
        )


def _fragmentations(
    stem: str, asked: float, asked_settled: float, held: Mapping[str, float], settled: Sample
) -> dict[str, float]:
    metrics = {f"{stem}_{name}": fragmentation(asked, bytes_) for name, bytes_ in held.items()}
    return metrics | {f"{stem}_rss_settled": fragmentation(asked_settled, settled.rss_true)}


def _without_store(now: Sample) -> dict[str, float]:
    """Return the held memory without the store; empty if the bucket has no store, or its size is unknown."""
    store, mapped = now.stat.get(STORE), now.stat.get(MAPPED)
    if store is None:
        return {}
    held = {"rss_now_no_store": now.rss_true - store}
    return held if mapped is None else held | {"mapped_no_store": mapped - store}


def _mem_used(sample: Sample) -> float:
    used = sample.stat.get(MEM_USED)
    if used is None:
        raise TrialError(f"STAT memory does not report {MEM_USED}")
    return used


@dataclass(frozen=True)
class Sample:
    """The state of one engine process at one instant, or the sum over several processes."""

    t: float  # unix seconds on the engine's host
    rss: int
    pss: int
    pss_file: int | None  # the part of pss that maps files; None from older kernels and load tools
    lazyfree: int
    anon_huge: int
    vsz: int
    stacks_vsz: int | None
    cpu_s: float
    threads: int
    stat: Mapping[str, float]

    @property
    def rss_true(self) -> int:
        """Rss without pages that were returned by MADV_FREE but not yet reclaimed (old jemalloc frees lazily)."""
        return self.rss - self.lazyfree


def parse_samples(text: str, where: str) -> list[Sample]:
    """Parse every complete line. A torn last line is ignored, because a signal stops the sampler.

    Any other unreadable line raises TrialError: a hole in the series must not remain unnoticed.
    """
    lines = text.split("\n")
    complete, tail = lines[:-1], lines[-1]
    samples = [
        _parse_sample(line, f"{where}:{number}")
        for number, line in enumerate(complete, 1)
        if line.strip()
    ]
    if tail.strip():
        with contextlib.suppress(TrialError):  # torn by the stop signal
            samples.append(_parse_sample(tail, f"{where}:{len(lines)}"))
    return samples


def _parse_sample(line: str, where: str) -> Sample:
    try:
        document = json.loads(line)
        stat = document["stat"]
        stacks, files = document.get("stacks_vsz"), document.get("pss_file")
        return Sample(
            t=float(document["t"]),
            rss=int(document["rss"]),
            pss=int(document["pss"]),
            pss_file=None if files is None else int(files),
            lazyfree=int(document["lazyfree"]),
            anon_huge=int(document["anon_huge"]),
            vsz=int(document["vsz"]),
            stacks_vsz=None if stacks is None else int(stacks),
            cpu_s=float(document["cpu_user_s"]) + float(document["cpu_sys_s"]),
            threads=int(document["threads"]),
            stat=numbers(stat),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialError(f"{where}: not a sample ({error!r})") from None


def numbers(group: Mapping[str, Any]) -> dict[str, float]:
    """Return the numeric values of a STAT group, without the textual ones."""
    values: dict[str, float] = {}
    for key, value in group.items():
        try:
            values[key] = float(value)
        except (TypeError, ValueError):
            continue
    return values


def add_nodes(per_node: Sequence[Sample]) -> Sample:
    """Add the samples of several engine nodes. A value that one node lacks is absent from the sum."""
    if not per_node:
        raise ValueError("no samples to add")
    shared = set(per_node[0].stat).intersection(*(sample.stat for sample in per_node[1:]))
    return Sample(
        t=max(s.t for s in per_node),
        rss=sum(s.rss for s in per_node),
        pss=sum(s.pss for s in per_node),
        pss_file=_sum_of_all([s.pss_file for s in per_node]),
        lazyfree=sum(s.lazyfree for s in per_node),
        anon_huge=sum(s.anon_huge for s in per_node),
        vsz=sum(s.vsz for s in per_node),
        stacks_vsz=_sum_of_all([s.stacks_vsz for s in per_node]),
        cpu_s=sum(s.cpu_s for s in per_node),
        threads=sum(s.threads for s in per_node),
        stat={key: sum(s.stat[key] for s in per_node) for key in sorted(shared)},
    )


def _sum_of_all(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)
