"""Memory metrics of a trial, and fragmentation by its two formulas.

mapped     100·(1 - mem_used / allocator mapped), both of one STAT answer at the end of the load
rss        100·(1 - mem_used at the end of the load / p99 of RSS over the run): the historic formula; it mixes instants
rss_now    100·(1 - mem_used / RSS), both at the end of the load
rss_settled  the same after the settle time

RSS means Rss - LazyFree. An allocator without a figure (the system's has no `mapped`) yields no metric: absent, not 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfrunner.errors import TrialError
from perfrunner.measure.samples import Sample

MEM_USED = "mem_used"
MAPPED = "total_heap_bytes"
_ALLOCATOR_METRICS = {
    "mapped_bytes": MAPPED,
    "metadata_bytes": "total_metadata_bytes",
    "metadata_thp_pages": "total_metadata_thp",
}


def fragmentation(used: float, held: float) -> float:
    """Percent of what is held that is not used."""
    if held <= 0:
        raise TrialError(f"fragmentation needs a positive amount of memory held, got {held:g}")
    return 100.0 * (1.0 - used / held)


def memory_metrics(run: Sequence[Sample], now: Sample, settled: Sample) -> dict[str, float]:
    """`run` are the periodic samples of the measured time, `now` the end of the load, `settled` after the settling."""
    if not run:
        raise TrialError(
            "the sampler left no sample of the run", hint="its log is kept beside the trial"
        )
    used = _mem_used(now)
    # the end of the load belongs to the run too: without it a short run would miss its own peak
    rss_p99 = float(np.percentile([sample.rss_true for sample in [*run, now]], 99))
    metrics = {
        "mem_used_bytes": used,
        "rss_bytes": rss_p99,
        "rss_plain_bytes": float(np.percentile([sample.rss for sample in [*run, now]], 99)),
        "pss_bytes": float(now.pss),
        "vsz_bytes": float(now.vsz - (now.stacks_vsz or 0)),
        "anon_huge_bytes": float(now.anon_huge),
        "fragmentation_rss": fragmentation(used, rss_p99),
        "fragmentation_rss_now": fragmentation(used, now.rss_true),
        "fragmentation_rss_settled": fragmentation(_mem_used(settled), settled.rss_true),
    }
    for metric, key in _ALLOCATOR_METRICS.items():
        value = now.stat_value(key)
        if value is not None:
            metrics[metric] = value
    mapped = now.stat_value(MAPPED)
    if mapped is not None:
        metrics["fragmentation_mapped"] = fragmentation(used, mapped)
    return metrics


def _mem_used(sample: Sample) -> float:
    used = sample.stat_value(MEM_USED)
    if used is None:
        raise TrialError(f"STAT memory gave no {MEM_USED}")
    return used
