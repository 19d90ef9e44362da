"""Every metric: unit, direction, kind of effect and default margin.

The direction (is higher better, or lower?) belongs to the metric's type, never to a report. The effect is the ratio to
the baseline, except for metrics that may be zero or negative and for percentages: those are compared by difference.
A margin is a share (0.01 = 1 %) for ratios, and in the metric's own unit for differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator

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

    @property
    def margin_unit(self) -> str:
        """The unit of a margin and of an estimate's deviation, for people."""
        if self.effect == "ratio":
            return "% of the baseline"
        return "percentage points" if self.unit == "%" else self.unit


def _family(unit: str, direction: Direction, titles: dict[str, str]) -> list[MetricType]:
    return [MetricType(name, unit, direction, title=title) for name, title in titles.items()]


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
    }),
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
    ),
    *_family("B", "lower", {
        "mem_used_bytes": "memory charged to the bucket",
        "rss_bytes": "resident memory without lazily freed pages (p99)",
        "rss_plain_bytes": "resident memory (p99)",
        "pss_bytes": "proportional resident memory",
        "mapped_bytes": "memory mapped by the allocator",
    }),
    *_family("B", "none", {"vsz_bytes": "virtual memory"}),
    *[
        MetricType(name, "B", "none", "difference", 2 * 2**20, title)
        for name, title in {
            "anon_huge_bytes": "memory in transparent huge pages",
            "metadata_bytes": "the allocator's own metadata",
        }.items()
    ],
    MetricType(
        "metadata_thp_pages", "pages", "none", "difference", 1.0, "huge pages of allocator metadata"
    ),
    *[
        MetricType(name, "%", "lower", "difference", 1.0, title)
        for name, title in {
            "fragmentation_mapped": "fragmentation by mapped memory",
            "fragmentation_rss": "fragmentation by RSS (p99 of the run)",
            "fragmentation_rss_now": "fragmentation by RSS at the end",
            "fragmentation_rss_settled": "fragmentation by RSS after settling",
        }.items()
    ],
]  # fmt: skip
METRICS: dict[str, MetricType] = {metric.id: metric for metric in _ALL}

# Micro-benchmarks keep their historic names: benchmark/arguments[/counter]. The last part decides; without a counter of
# COUNTERS it is the time of one iteration.
_MICROBENCH = re.compile(
    r"(?:HTB|HTStats|CheckpointBench|FlushVBucket|EPEngine|Latency)[A-Za-z0-9]*(?:/[A-Za-z0-9_.:+-]+)+"
)
COUNTERS: dict[str, MetricType] = {
    "items_per_second": MetricType("", "items/s", "higher"),
    "items_per_s": MetricType("", "items/s", "higher"),
    "bytes_per_second": MetricType("", "B/s", "higher"),
    "PeakBytesPerItem": MetricType("", "B/item", "lower"),
    "PeakFlushBytes": MetricType("", "B", "lower"),
    "stats_bytes_per_vb": MetricType("", "B", "lower"),
    "stripes": MetricType("", "stripes", "none", "difference", 1.0),
    "checkpoints": MetricType("", "checkpoints", "none", "difference", 1.0),
    "rounds_beside": MetricType("", "rounds", "none"),
    "growth": MetricType("", "exponent", "lower", "difference", 0.05),
    "cpu_time": MetricType("", "ns", "lower"),
    **{f"{p}_us": MetricType("", "us", "lower") for p in ("p50", "p95", "p99", "sd")},
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


def _metric(name: str) -> str:
    if not is_metric(name):
        raise ValueError(expected_name("a metric", name, METRICS))
    return name


MetricId = Annotated[str, AfterValidator(_metric)]
