"""Define all metrics: unit, direction, kind of effect, default margin and resolution.

The direction says whether higher or lower is better. It is a property of the metric, never of a report.
The effect is the ratio to the baseline. Metrics that may be zero or negative, and percentages, are
compared by difference. Margin and resolution are shares (0.01 = 1 %) for ratios and in the metric's
unit for differences. The resolution is the largest change without meaning, such as some pages or a
bucket of a histogram, however exactly it repeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from perfrunner.spec.suggest import did_you_mean, expected_name

Direction: TypeAlias = Literal["higher", "lower", "none"]
Effect: TypeAlias = Literal["ratio", "difference"]


@dataclass(frozen=True)
class MetricType:
    """The definition of a metric: how its numbers are read and compared."""

    id: str
    unit: str
    direction: Direction
    effect: Effect = "ratio"
    default_margin: float = 0.01
    title: str = ""
    resolution: float = 0.0
    # A count of rare events: none in some trials does not mean that there are none.
    events: bool = False

    @property
    def margin_unit(self) -> str:
        """The unit of a margin and of an estimate, for display."""
        if self.effect == "ratio":
            return "% of the baseline"
        return "percentage points" if self.unit == "%" else self.unit


HISTOGRAM_STEP = 0.002  # share: buckets have three significant digits
CLOCK_STEP = 0.003  # share: single operations of 300 ns or more are timed in whole nanoseconds
HEAP_STEP = 0.001  # share: a heap grows by whole pages; even the length of a path changes it
STEP_STEP = 0.01  # share: a step is timed on one host and carried out on others
FRAGMENTATION_STEP = 0.1  # percentage points that correspond to one HEAP_STEP


def _family(
    unit: str, direction: Direction, titles: dict[str, str], resolution: float = 0.0, **fields: Any
) -> list[MetricType]:
    return [
        MetricType(name, unit, direction, title=title, resolution=resolution, **fields)
        for name, title in titles.items()
    ]


def _differences(
    unit: str,
    direction: Direction,
    margin: float,
    titles: dict[str, str],
    resolution: float = 0.0,
    **fields: Any,
) -> list[MetricType]:
    """Return metrics that are compared by difference."""
    return _family(
        unit, direction, titles, resolution, effect="difference", default_margin=margin, **fields
    )


def _fragmentation(stem: str, prefix: str) -> dict[str, str]:
    """Return ids and titles of 100·(1 - requested / held), by the measure of held memory."""
    held = {
        "mapped": "mapped memory",
        "mapped_no_store": "mapped memory without the store's memory",
        "rss": "RSS (p99 of the run)",
        "rss_plain": "RSS with lazily freed pages (p99 of the run)",
        "rss_now": "RSS at the end",
        "rss_now_no_store": "RSS at the end without the store's memory",
        "rss_settled": "RSS after settling",
    }
    return {f"{stem}_{name}": f"{prefix}, by {title}" for name, title in held.items()}


_ALL = [
    *_family("ops/s", "higher", {
        "ops_per_s": "operations per second (interleaved: robust over rounds; sequential: mean of the steady window)",
        "ops_per_s_total": "operations per second (all slices, including rare slow ones)",
        "ops_per_s_p90": "operations per second (90th percentile of slices; sequential: of seconds)",
    }),
    MetricType("slow_slices", "%", "lower", "difference", 1.0, "slices slower than twice the variant's median"),
    *_family("us", "lower", {
        f"latency_{op}_{p}_us": f"{op} latency, {p.replace('_', '.')}"
        for op in ("get", "set")
        for p in ("p50", "p90", "p95", "p99", "p99_9")
    }, HISTOGRAM_STEP),
    *_family("us", "lower", {
        "server_cpu_us_per_op": "server CPU per operation",
        "total_cpu_us_per_op": "server CPU per operation, background work included, of a server that is alone",
        "client_cpu_us_per_op": "load client CPU per operation",
    }),
    *_differences("us", "none", 0.1, {
        "own_cpu_us_per_op": "server CPU per operation in the variant's own slices",
        "background_cpu_us_per_op": "server CPU per operation in the slices of others, caused by its load",
        "foreign_cpu_us_per_op": "CPU of the other servers in the variant's slices, per operation",
        "waiting_us_per_op": "time of a load thread per operation without CPU of load or servers",
        "injected_us_per_op": "CPU that an injected fault burnt per operation, counted by the server",
    }),
    *_differences("ms/s", "none", 1.0, {
        "background_cpu_ms_per_s": "server CPU per second outside the variant's slices",
        "idle_cpu_ms_per_s": "server CPU per second before the load",
        "injected_ms_per_s": "CPU that an injected fault burnt per second, counted by the server",
    }),
    MetricType(
        "unpersisted_items",
        "items",
        "none",
        "difference",
        100.0,
        "writes not yet on disk at the end of the load",
    ),
    MetricType(
        "instructions_per_op",
        "instructions",
        "lower",
        default_margin=0.002,
        title="user-mode instructions of the engine's front end per operation",
        resolution=0.0005,
    ),
    *_family("ops/s", "higher", {
        "ops_per_s_before": "operations per second before the step",
        "ops_per_s_after": "operations per second after the step",
    }),
    MetricType("ops_per_s_during", "ops/s", "higher", "difference", 1000.0, "operations per second during the step"),
    MetricType("step_s", "s", "lower", title="duration of the step", resolution=STEP_STEP),
    MetricType("service_gap_ms", "ms", "lower", "difference", 10.0, "longest interval without any completed operation"),
    *_differences("operations", "lower", 1.0, {
        "nmvb_retries": "operations retried after NOT_MY_VBUCKET",
        "misses": "reads of stored documents that found nothing",
    }, events=True),
    *[
        MetricType(name, unit, "lower", "difference", 1.0, title, events=True)
        for name, unit, title in (
            ("lost_writes", "documents", "acknowledged writes that were lost"),
            ("errors", "operations", "operations that ended in an error"),
        )
    ],
    MetricType("verified_items", "items", "none", "difference", 1.0, "documents whose content is as last written"),
    *_family("B", "lower", {
        "mem_used_bytes": "memory charged to the bucket",
        "rss_bytes": "resident memory without lazily freed pages (p99)",
        "rss_plain_bytes": "resident memory (p99)",
        "pss_bytes": "proportional resident memory, without files",
        "mapped_bytes": "memory mapped by the allocator",
        "rss_full_bytes": "churn: resident memory with all items",
        "rss_deleted_bytes": "churn: resident memory after the deletion and the rest",
        "rss_regrown_bytes": "churn: resident memory when the items are back with another size",
    }, HEAP_STEP),
    MetricType(
        "rss_returned",
        "%",
        "higher",
        "difference",
        1.0,
        "churn: share of the memory of all items that the system has back after the deletion and the rest",
        FRAGMENTATION_STEP,
    ),
    *_family("B", "none", {
        "vsz_bytes": "virtual memory",
        "payload_bytes": "bytes requested for keys, values and per-item structures",
    }),
    *_differences("B", "none", 2 * 2**20, {
        "anon_huge_bytes": "memory in transparent huge pages",
        "metadata_bytes": "the allocator's own metadata",
        "allocator_frag_bytes": "free memory inside the allocator's pages in use",
        "allocator_rss_bytes": "the allocator's metadata and its pages not yet purged",
        "retained_bytes": "address space that the allocator retains without memory",
        "store_bytes": "memory held by the store of a persistent bucket",
    }),
    MetricType("metadata_thp_pages", "pages", "none", "difference", 1.0, "huge pages of allocator metadata"),
    *_differences("%", "lower", 1.0, {
        **_fragmentation("fragmentation", "fragmentation"),
        **_fragmentation("fragmentation_payload", "memory beyond the payload"),
    }, FRAGMENTATION_STEP),
    *_differences("%", "none", 1.0, {
        "fragmentation_vsz": "fragmentation by virtual memory",
        "fragmentation_payload_vsz": "memory beyond the payload, by virtual memory",
    }),
]  # fmt: skip
# Metrics of workloads that verify the content of every document.
OF_CONTENTS = ("errors", "verified_items")
# Metrics of workloads that change the cluster under load.
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
# Metrics of a load that deletes items and stores them again.
OF_CHURN = ("rss_full_bytes", "rss_deleted_bytes", "rss_regrown_bytes", "rss_returned")
# Based on mem_used, which counts usable sizes after each allocator's rounding. To compare two allocators,
# use the metrics based on payload.
BY_USABLE_SIZE = tuple(_fragmentation("fragmentation", ""))
METRICS: dict[str, MetricType] = {metric.id: metric for metric in _ALL}
# Metrics of the store of a persistent bucket.
OF_A_STORE = tuple(name for name in METRICS if name == "store_bytes" or name.endswith("_no_store"))

# Micro-benchmarks keep their historic names: benchmark/arguments[/counter]. The last part decides the type:
# a counter of COUNTERS, or else the time of one iteration.
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
    """Return the definition of a metric. Raises KeyError, which suggests the nearest name."""
    known = METRICS.get(metric_id)
    if known is not None:
        return known
    if _MICROBENCH.fullmatch(metric_id):
        kind = COUNTERS.get(metric_id.rsplit("/", 1)[-1], _TIME)
        return replace(kind, id=metric_id, title=metric_id)
    raise KeyError(f"unknown metric {metric_id}{did_you_mean(metric_id, METRICS)}")


def is_metric(metric_id: str) -> bool:
    """Tell whether a metric of this name exists."""
    return metric_id in METRICS or _MICROBENCH.fullmatch(metric_id) is not None


def check_metric(name: str) -> str:
    """Return the name if such a metric exists. Raises ValueError, which suggests the nearest name."""
    if not is_metric(name):
        raise ValueError(expected_name("a metric", name, METRICS))
    return name
