"""Every metric: unit, direction, kind of effect, default margin and resolution.

The direction (is higher better, or lower?) belongs to the metric's type, never to a report. The effect is the ratio to
the baseline, except for metrics that may be zero or negative and for percentages: those are compared by difference.
A margin is a share (0.01 = 1 %) for ratios, and in the metric's own unit for differences. So is a resolution: the
largest change that means nothing (some pages, a bucket of a histogram), however exactly it repeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from perfrunner.spec.suggest import did_you_mean, expected_name

Direction: TypeAlias = Literal["higher", "lower", "none"]
Effect: TypeAlias = Literal["ratio", "difference"]


@dataclass(frozen=True)
class MetricType:
    """What a metric's numbers mean."""

    id: str
    unit: str
    direction: Direction
    effect: Effect = "ratio"
    default_margin: float = 0.01
    title: str = ""
    resolution: float = 0.0

    @property
    def margin_unit(self) -> str:
        """The unit of a margin and of an estimate's deviation, for people."""
        if self.effect == "ratio":
            return "% of the baseline"
        return "percentage points" if self.unit == "%" else self.unit


HISTOGRAM_STEP = 0.002  # share: buckets have three significant digits
CLOCK_STEP = 0.003  # share: single operations of 300 ns and more are timed in whole nanoseconds
HEAP_STEP = 0.001  # share: a heap grows by pages and runs of them; the length of a path moves it
STEP_STEP = 0.01  # share: a step is timed on one host and done on others
FRAGMENTATION_STEP = 0.1  # points: what a HEAP_STEP is worth


def _family(
    unit: str, direction: Direction, titles: dict[str, str], resolution: float = 0.0
) -> list[MetricType]:
    return [
        MetricType(name, unit, direction, title=title, resolution=resolution)
        for name, title in titles.items()
    ]


def _fragmentation(stem: str, words: str) -> dict[str, str]:
    """Titles of 100·(1 - asked for / held) by what is held (measure/memory.py)."""
    held = {
        "mapped": "mapped memory",
        "mapped_no_store": "mapped memory without the store's",
        "rss": "RSS (p99 of the run)",
        "rss_plain": "RSS with lazily freed pages (p99 of the run)",
        "rss_now": "RSS at the end",
        "rss_now_no_store": "RSS at the end without the store's memory",
        "rss_settled": "RSS after settling",
    }
    return {f"{stem}_{name}": f"{words}, by {title}" for name, title in held.items()}


_ALL = [
    *_family("ops/s", "higher", {
        "ops_per_s": "operations per second (robust over rounds; alone: mean of the steady window)",
        "ops_per_s_total": "operations per second (every slice in it, rare slow ones too)",
        "ops_per_s_p90": "operations per second (90th percentile of slices; alone: of seconds)",
    }),
    MetricType(
        "slow_slices", "%", "lower", "difference", 1.0, "slices slower than twice the arm's median"
    ),
    *_family("us", "lower", {
        f"latency_{op}_{p}_us": f"{op} latency, {p.replace('_', '.')}"
        for op in ("get", "set")
        for p in ("p50", "p90", "p95", "p99", "p99_9")
    }, HISTOGRAM_STEP),
    *_family("us", "lower", {
        "server_cpu_us_per_op": "server CPU per operation",
        "client_cpu_us_per_op": "load client CPU per operation",
    }),
    MetricType(
        "instructions_per_op",
        "instructions",
        "lower",
        default_margin=0.002,
        title="user instructions of the engine's front end per operation",
        resolution=0.0005,
    ),
    *_family("ops/s", "higher", {
        "ops_per_s_before": "operations per second before the step",
        "ops_per_s_after": "operations per second after the step",
    }),
    MetricType(
        "ops_per_s_during",
        "ops/s",
        "higher",
        "difference",
        1000.0,
        "operations per second during the step",
    ),
    MetricType("step_s", "s", "lower", title="duration of the step", resolution=STEP_STEP),
    MetricType(
        "service_gap_ms", "ms", "lower", "difference", 10.0, "longest time without any service"
    ),
    *[
        MetricType(name, "operations", "lower", "difference", 1.0, title)
        for name, title in {
            "nmvb_retries": "operations sent again after NOT_MY_VBUCKET",
            "misses": "reads of stored documents that found nothing",
        }.items()
    ],
    MetricType(
        "lost_writes", "documents", "lower", "difference", 1.0, "acknowledged writes that are gone"
    ),
    MetricType(
        "errors", "operations", "lower", "difference", 1.0, "operations that ended in an error"
    ),
    MetricType(
        "verified_items", "items", "none", "difference", 1.0, "documents that are as last written"
    ),
    *_family("B", "lower", {
        "mem_used_bytes": "memory charged to the bucket",
        "rss_bytes": "resident memory without lazily freed pages (p99)",
        "rss_plain_bytes": "resident memory (p99)",
        "pss_bytes": "proportional resident memory, without files",
        "mapped_bytes": "memory mapped by the allocator",
    }, HEAP_STEP),
    *_family("B", "none", {
        "vsz_bytes": "virtual memory",
        "payload_bytes": "bytes requested for keys, values and per-item structures",
    }),
    *[
        MetricType(name, "B", "none", "difference", 2 * 2**20, title)
        for name, title in {
            "anon_huge_bytes": "memory in transparent huge pages",
            "metadata_bytes": "the allocator's own metadata",
            "allocator_frag_bytes": "free inside the allocator's pages in use",
            "allocator_rss_bytes": "the allocator's metadata and pages not purged yet",
            "retained_bytes": "address space that the allocator keeps without memory",
            "store_bytes": "what the store of a persistent bucket holds in memory",
        }.items()
    ],
    MetricType(
        "metadata_thp_pages", "pages", "none", "difference", 1.0, "huge pages of allocator metadata"
    ),
    *[
        MetricType(name, "%", "lower", "difference", 1.0, title, FRAGMENTATION_STEP)
        for name, title in {
            **_fragmentation("fragmentation", "fragmentation"),
            **_fragmentation("fragmentation_payload", "held and not payload"),
        }.items()
    ],
    *[
        MetricType(name, "%", "none", "difference", 1.0, title)
        for name, title in {
            "fragmentation_vsz": "fragmentation by virtual memory",
            "fragmentation_payload_vsz": "held and not payload, by virtual memory",
        }.items()
    ],
]  # fmt: skip
# Of a workload that knows what every document has to be.
OF_CONTENTS = ("errors", "verified_items")
# Of a workload that changes the cluster under its load.
OF_STEPS = (
    "ops_per_s_before",
    "ops_per_s_during",
    "ops_per_s_after",
    "step_s",
    "service_gap_ms",
    "nmvb_retries",
    "misses",
    "lost_writes",
)
# By mem_used, which is usable sizes: what each allocator rounds up to. Between two allocators payload compares.
BY_USABLE_SIZE = tuple(_fragmentation("fragmentation", ""))
METRICS: dict[str, MetricType] = {metric.id: metric for metric in _ALL}
# Of a persistent bucket's store.
OF_A_STORE = tuple(name for name in METRICS if name == "store_bytes" or name.endswith("_no_store"))

# Micro-benchmarks keep their historic names: benchmark/arguments[/counter]. The last part decides; without a counter of
# COUNTERS it is the time of one iteration.
_MICROBENCH = re.compile(
    r"(?:HTB|HTStats|CheckpointBench|ConsumerBench|FlushVBucket|EPEngine|Latency)[A-Za-z0-9]*(?:/[A-Za-z0-9_.:+-]+)+"
)
COUNTERS: dict[str, MetricType] = {
    "items_per_second": MetricType("", "items/s", "higher"),
    "items_per_s": MetricType("", "items/s", "higher"),
    "bytes_per_second": MetricType("", "B/s", "higher"),
    "PeakBytesPerItem": MetricType("", "B/item", "lower", resolution=HEAP_STEP),
    "PeakFlushBytes": MetricType("", "B", "lower", resolution=HEAP_STEP),
    "stats_bytes_per_vb": MetricType("", "B", "lower", resolution=HEAP_STEP),
    "stripes": MetricType("", "stripes", "none", "difference", 1.0),
    "cpus": MetricType("", "CPUs", "none", "difference", 1.0),
    "checkpoints": MetricType("", "checkpoints", "none", "difference", 1.0),
    "rounds_beside": MetricType("", "rounds", "none"),
    "growth": MetricType("", "exponent", "lower", "difference", 0.05),
    "cpu_time": MetricType("", "ns", "lower"),
    **{
        f"{p}_us": MetricType("", "us", "lower", resolution=CLOCK_STEP)
        for p in ("p50", "p95", "p99")
    },
    "sd_us": MetricType("", "us", "lower"),
}
_TIME = MetricType("", "ns", "lower")


def metric_type(metric_id: str) -> MetricType:
    """The type of a metric; KeyError (with the nearest name) for one that does not exist."""
    found = METRICS.get(metric_id)
    if found is not None:
        return found
    if _MICROBENCH.fullmatch(metric_id):
        kind = COUNTERS.get(metric_id.rsplit("/", 1)[-1], _TIME)
        return replace(kind, id=metric_id, title=metric_id)
    raise KeyError(f"unknown metric {metric_id}{did_you_mean(metric_id, METRICS)}")


def is_metric(metric_id: str) -> bool:
    """Whether `metric_type` knows it."""
    return metric_id in METRICS or _MICROBENCH.fullmatch(metric_id) is not None


def check_metric(name: str) -> str:
    """The name of a metric. ValueError for another, which proposes the nearest."""
    if not is_metric(name):
        raise ValueError(expected_name("a metric", name, METRICS))
    return name
