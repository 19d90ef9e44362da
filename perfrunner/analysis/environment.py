"""Describe the environment of an experiment and list how two environments differ.

Two runs can be compared, or follow each other in a history, only if these values are equal. Builds are not
part of the environment: finding the effect of a new build is the purpose of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfrunner.domain import STABLE_FACTS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perfrunner.results import ExperimentRecord

# Facts of a host that are the same after the next boot, and its name.
HOST_FACTS = ("hostname", *(name for name in STABLE_FACTS if name != "boot_id"))
CONTAINER = "container"  # fact of a container, whose host name is a random id
_SAME_MEMORY = 0.01  # share: the memory that a kernel reserves differs from boot to boot
_NOT_MEASURED = {"port"}  # engine settings without influence on results
_MOST_SHOWN = 6


def shared_environment(record: ExperimentRecord) -> dict[str, str]:
    """Return the settings that hold for a whole experiment: hosts and roles, engine, clients, schedule."""
    from perfrunner.spec.model import (  # a report of one experiment needs no model
        ClientSpec,
        EngineSpec,
    )

    spec = record.spec_json
    cluster = spec.get("cluster") or {}
    values = {
        f"cluster {key}": _text(cluster[key])
        for key in ("transport", "engine_nodes", "load_clients")
        if key in cluster
    }
    values["cluster replicas"] = _text(cluster.get("replicas", 0))
    for name, facts in sorted(hosts_of(record.facts).items()):
        values |= _host(name, facts)
    for label, model in (("engine", EngineSpec), ("client", ClientSpec)):
        settings = _filled(model, spec.get(label) or {})
        values |= {f"{label} {k}": _text(v) for k, v in settings.items() if k not in _NOT_MEASURED}
    values["schedule"] = _text(spec.get("schedule", "interleaved"))
    values["relink"] = _text(spec.get("relink", "auto"))
    return values


def _host(name: str, facts: Mapping[str, Any]) -> dict[str, str]:
    counted = [key for key in HOST_FACTS if key in facts]
    if facts.get(CONTAINER):
        counted = [key for key in counted if key != "hostname"]
    return {f"host {name} {key}": _text(facts[key]) for key in counted}


def workload_environment(record: ExperimentRecord, name: str) -> dict[str, str]:
    """Return a workload's definition; empty if the experiment has no workload of this name."""
    from perfrunner.spec.workloads import WORKLOAD_TYPES, measured_settings

    workload = (record.spec_json.get("workloads") or {}).get(name)
    if not isinstance(workload, Mapping):
        return {}
    model = WORKLOAD_TYPES.get(str(workload.get("type")))
    settings = workload if model is None else _filled(model, workload)
    return {
        f"workload {name} {key}": _text(value) for key, value in measured_settings(settings).items()
    }


def variant_environment(record: ExperimentRecord, name: str) -> dict[str, str]:
    """Return a variant's definition (not its build)."""
    variant = (record.spec_json.get("variants") or {}).get(name)
    if not isinstance(variant, Mapping):
        return {}
    return {
        f"variant {name} {key}": _text(value)
        for key, value in _flat(variant)
        if key != "name" and value not in (None, {}, "")
    }


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return a line such as `host local kernel: 6.1 or 6.5` for every value that differs."""
    keys = dict.fromkeys([*first, *second])
    return [
        f"{key}: {first.get(key, 'none')} or {second.get(key, 'none')}"
        for key in keys
        if not _alike(key, first.get(key), second.get(key))
    ]


def _alike(key: str, first: str | None, second: str | None) -> bool:
    if first is None or second is None or not key.endswith(" memory_bytes"):
        return first == second
    return math.isclose(float(first), float(second), rel_tol=_SAME_MEMORY)


def shortened(lines: list[str]) -> str:
    """Join the first few lines and say how many were left out."""
    more = len(lines) - _MOST_SHOWN
    return "; ".join([*lines[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def hosts_of(facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of the hosts at the time when the experiment was last run."""
    hosts = facts.get("latest_hosts") or facts.get("hosts") or {}
    return {name: host for name, host in hosts.items() if isinstance(host, Mapping)}


def same_hosts(
    first: Mapping[str, Mapping[str, Any]], second: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Tell whether both have the same host names and the same facts of each host."""
    return first.keys() == second.keys() and not any(
        differences(_host(name, first[name]), _host(name, second[name])) for name in first
    )


def _filled(model: type[BaseModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults of settings that an older perfrunner did not record; it behaved as the defaults say."""
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
