"""What each variant is, in a line: allocator and its options, build switches, engine parameters, environment, build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perfrunner.report.model import Fact

if TYPE_CHECKING:
    from perfrunner.results import BuildRecord, ExperimentData


def variant_facts(data: ExperimentData, shown: Iterable[str]) -> Iterable[Fact]:
    """A line for each of the `shown` variants that the spec defines."""
    spec = data.experiment.spec_json
    defined = spec.get("variants") or {}
    common = (spec.get("engine") or {}).get("params") or {}
    builds = {build.variant: build for build in data.builds}
    for name in shown:
        if isinstance(variant := defined.get(name), dict):
            mark = " (baseline)" if name == spec.get("baseline") else ""
            build = _build(builds[name]) if name in builds else ""
            yield Fact(f"variant {name}{mark}", f"{definition(variant, common)}{build}")


def _build(record: BuildRecord) -> str:
    host = record.provenance.get("build_host")
    return f"; build {record.build_id[:12]}{f', made on {host}' if host else ''}"


def definition(variant: Mapping[str, Any], engine_params: Mapping[str, Any] | None = None) -> str:
    """`jemalloc-5.1.0 metadata_thp:always; ht_stats=core; param ht_size=47; env A=b`, from the recorded spec."""
    allocator = variant.get("allocator") or {}
    options = ",".join(f"{k}:{v}" for k, v in (allocator.get("options") or {}).items())
    profile = f"profile {allocator['profile']}" if allocator.get("profile") else ""
    params = {**(engine_params or {}), **(variant.get("params") or {})}
    parts = [
        " ".join(filter(None, (str(allocator.get("name", "")), profile, options))),
        _pairs("", variant.get("options")),
        _pairs("param ", params),
        _pairs("env ", variant.get("env")),
        f"proof skips {', '.join(proof['skip'])}" if (proof := variant.get("proof")) else "",
    ]
    return "; ".join(filter(None, parts))


def _pairs(label: str, settings: Mapping[str, Any] | None) -> str:
    return label + ", ".join(f"{k}={v}" for k, v in settings.items()) if settings else ""
