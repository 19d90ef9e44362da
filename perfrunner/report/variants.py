"""Describe each variant in a line: allocator, build switches, engine parameters, environment and build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from perfrunner.report.model import Fact

if TYPE_CHECKING:
    from perfrunner.results import BuildRecord, ExperimentData

_PLAIN = re.compile(r"[\w@%+=:,./{}-]+")  # {port} needs no quotes here


def variant_facts(data: ExperimentData, shown: Iterable[str]) -> Iterable[Fact]:
    """Yield a line for each of the `shown` variants that the spec defines."""
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
    return f"; build {record.build_id[:12]}{f', built on {host}' if host else ''}"


def definition(variant: Mapping[str, Any], engine_params: Mapping[str, Any] | None = None) -> str:
    """Return a variant as text: `jemalloc-5.1.0 metadata_thp:always; ht_stats=core; param ht_size=47; env A=b`."""
    if isinstance(server := variant.get("server"), dict):
        preload = (variant.get("allocator") or {}).get("preload")
        parts = [
            command(server),
            f"preload {preload}" if preload else "",
            _pairs("", (variant.get("allocator") or {}).get("options")),
            _pairs("env ", variant.get("env")),
        ]
        return "; ".join(filter(None, parts))
    allocator = variant.get("allocator") or {}
    options = ",".join(f"{k}:{v}" for k, v in (allocator.get("options") or {}).items())
    profile = f"profile {allocator['profile']}" if allocator.get("profile") else ""
    params = {**(engine_params or {}), **(variant.get("params") or {})}
    parts = [
        " ".join(filter(None, (str(allocator.get("name", "")), profile, options))),
        _pairs("", variant.get("options")),
        _pairs("param ", params),
        _pairs("env ", variant.get("env")),
        f"settings check skips {', '.join(settings_check['skip'])}"
        if (settings_check := variant.get("settings_check"))
        else "",
    ]
    return "; ".join(filter(None, parts))


def command(server: Mapping[str, Any]) -> str:
    """Return the command of a server as a shell would read it, and the revision that it is built from."""
    words = [
        word if _PLAIN.fullmatch(word) else quote(word) for word in map(str, server["command"])
    ]
    if not server.get("git"):
        return " ".join(words)
    return f"{' '.join(words)} of {server['git']}@{server.get('revision') or 'HEAD'}"


def _pairs(label: str, settings: Mapping[str, Any] | None) -> str:
    return label + ", ".join(f"{k}={v}" for k, v in settings.items()) if settings else ""
