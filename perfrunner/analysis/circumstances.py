"""Under which circumstances an experiment was measured, and in what two of them differ.

Two runs are compared, or follow each other in a history, only as far as these are alike. The builds are no part of
them: whether a new build changed something is what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perfrunner.results import ExperimentRecord

# Of a host: what stands in a run's facts and does not change between two boots (cluster.STABLE_FACTS), and its name.
HOST_FACTS = (
    "hostname", "kernel", "machine", "distribution", "cpu_model", "cpus", "memory_bytes", "thp_enabled", "thp_defrag",
    "governor", "clock_source", "turbo", "smt", "aslr", "numa_nodes", "glibc", "microcode", "swap_bytes",
    "cpus_allowed", "cgroup_cpu_max", "cgroup_memory_max_bytes", "niceness",
)  # fmt: skip
CONTAINER = "container"  # fact of a host: it is one, and its name is its id
_SAME_MEMORY = 0.01  # share: what a kernel keeps for itself differs from boot to boot
_NOT_MEASURED = {"port"}  # of the engine's settings
_MOST_SHOWN = 6


def shared_circumstances(record: ExperimentRecord) -> dict[str, str]:
    """What holds for all of an experiment: hosts and their roles, settings of engine and clients, the schedule."""
    from perfrunner.spec.model import (  # a report of one experiment needs no model
        ClientSpec,
        EngineSpec,
    )

    spec = record.spec_json
    cluster = spec.get("cluster") or {}
    found = {
        f"cluster {key}": _text(cluster[key])
        for key in ("transport", "engine_nodes", "load_clients")
        if key in cluster
    }
    found["cluster replicas"] = _text(cluster.get("replicas", 0))
    for name, facts in sorted(hosts_of(record.facts).items()):
        found |= _host(name, facts)
    for label, model in (("engine", EngineSpec), ("client", ClientSpec)):
        settings = _filled(model, spec.get(label) or {})
        found |= {f"{label} {k}": _text(v) for k, v in settings.items() if k not in _NOT_MEASURED}
    found["schedule"] = _text(spec.get("schedule", "side-by-side"))
    found["relink"] = _text(spec.get("relink", "auto"))
    return found


def _host(name: str, facts: Mapping[str, Any]) -> dict[str, str]:
    counted = [key for key in HOST_FACTS if key in facts]
    if facts.get(CONTAINER):
        counted = [key for key in counted if key != "hostname"]
    return {f"host {name} {key}": _text(facts[key]) for key in counted}


def workload_circumstances(record: ExperimentRecord, name: str) -> dict[str, str]:
    """The workload as it is defined; empty where the experiment has none of this name."""
    from perfrunner.spec.workloads import WORKLOAD_TYPES, measured_settings

    workload = (record.spec_json.get("workloads") or {}).get(name)
    if not isinstance(workload, Mapping):
        return {}
    model = WORKLOAD_TYPES.get(str(workload.get("type")))
    settings = workload if model is None else _filled(model, workload)
    return {
        f"workload {name} {key}": _text(value) for key, value in measured_settings(settings).items()
    }


def variant_circumstances(
    record: ExperimentRecord, name: str, label: str | None = None
) -> dict[str, str]:
    """The variant as it is defined (not its build), under `label` where that is to be another name."""
    variant = (record.spec_json.get("variants") or {}).get(name)
    if not isinstance(variant, Mapping):
        return {}
    shown = name if label is None else label
    return {
        f"variant {shown} {key}": _text(value)
        for key, value in _flat(variant)
        if key != "name" and value not in (None, {}, "")
    }


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """`host local kernel: 6.1 or 6.5`, for every circumstance that is not the same in both."""
    keys = dict.fromkeys([*one, *other])
    return [
        f"{key}: {one.get(key, 'none')} or {other.get(key, 'none')}"
        for key in keys
        if not _alike(key, one.get(key), other.get(key))
    ]


def _alike(key: str, one: str | None, other: str | None) -> bool:
    if one is None or other is None or not key.endswith(" memory_bytes"):
        return one == other
    return math.isclose(float(one), float(other), rel_tol=_SAME_MEMORY)


def shortened(lines: list[str]) -> str:
    """The first of them in a line, and how many there are besides."""
    more = len(lines) - _MOST_SHOWN
    return "; ".join([*lines[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def hosts_of(facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The hosts as they were when the experiment was last run."""
    found = facts.get("latest_hosts") or facts.get("hosts") or {}
    return {name: host for name, host in found.items() if isinstance(host, Mapping)}


def same_hosts(
    one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]
) -> bool:
    """The same names, and the same facts of each."""
    return one.keys() == other.keys() and not any(
        differences(_host(name, one[name]), _host(name, other[name])) for name in one
    )


def _filled(model: type[BaseModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    """With the defaults of what an older perfrunner did not write down: it did what they say."""
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }
    return {**defaults, **settings}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={_text(v)}" for k, v in sorted(value.items())) or "none"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
