"""The YAML model: what an experiment is. `load_spec` is the door."""

from __future__ import annotations

from perfrunner.spec.allocator import ALLOCATORS, SYSTEM, AllocatorSpec
from perfrunner.spec.cluster import ClusterSpec, HostSpec
from perfrunner.spec.loader import load_cluster, load_spec
from perfrunner.spec.metrics import METRICS, MetricType, metric_type
from perfrunner.spec.model import NO_BUCKET, EngineSpec, Limits, Spec
from perfrunner.spec.options import BUILD_OPTIONS, BuildOption
from perfrunner.spec.variant import Variant
from perfrunner.spec.workloads import (
    AppendSpec,
    LatencySpec,
    MicrobenchSpec,
    PillowfightSpec,
    ServerWorkload,
    ToolWorkload,
    Workload,
)

__all__ = [
    "ALLOCATORS",
    "BUILD_OPTIONS",
    "METRICS",
    "NO_BUCKET",
    "SYSTEM",
    "AllocatorSpec",
    "AppendSpec",
    "BuildOption",
    "ClusterSpec",
    "EngineSpec",
    "HostSpec",
    "LatencySpec",
    "Limits",
    "MetricType",
    "MicrobenchSpec",
    "PillowfightSpec",
    "ServerWorkload",
    "Spec",
    "ToolWorkload",
    "Variant",
    "Workload",
    "load_cluster",
    "load_spec",
    "metric_type",
]
