"""Describe an experiment: the model of a YAML spec and its loader. Start at `load_spec`.

Names are imported on first use, because importing pydantic takes a fifth of a second that `--help`
and shell completion do not need to spend.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfrunner.spec.allocator import ALLOCATORS, SYSTEM, AllocatorSpec
    from perfrunner.spec.cluster import ClusterSpec, HostSpec
    from perfrunner.spec.loader import is_cluster, load_cluster, load_spec
    from perfrunner.spec.metrics import METRICS, MetricType, metric_type
    from perfrunner.spec.model import EngineSpec, Limits, Spec
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
    "METRICS",
    "SYSTEM",
    "AllocatorSpec",
    "AppendSpec",
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
    "is_cluster",
    "load_cluster",
    "load_spec",
    "metric_type",
]

_PLACES = {
    "ALLOCATORS": "perfrunner.spec.allocator",
    "AllocatorSpec": "perfrunner.spec.allocator",
    "AppendSpec": "perfrunner.spec.workloads",
    "ClusterSpec": "perfrunner.spec.cluster",
    "EngineSpec": "perfrunner.spec.model",
    "HostSpec": "perfrunner.spec.cluster",
    "LatencySpec": "perfrunner.spec.workloads",
    "Limits": "perfrunner.spec.model",
    "METRICS": "perfrunner.spec.metrics",
    "MetricType": "perfrunner.spec.metrics",
    "MicrobenchSpec": "perfrunner.spec.workloads",
    "PillowfightSpec": "perfrunner.spec.workloads",
    "SYSTEM": "perfrunner.spec.allocator",
    "ServerWorkload": "perfrunner.spec.workloads",
    "Spec": "perfrunner.spec.model",
    "ToolWorkload": "perfrunner.spec.workloads",
    "Variant": "perfrunner.spec.variant",
    "Workload": "perfrunner.spec.workloads",
    "is_cluster": "perfrunner.spec.loader",
    "load_cluster": "perfrunner.spec.loader",
    "load_spec": "perfrunner.spec.loader",
    "metric_type": "perfrunner.spec.metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value
