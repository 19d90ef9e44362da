"""Describe the compared variants and workloads in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.facts import flatten
from perfrunner.report.variants import command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfrunner.report.model import Report

SILENT = (
    "name",
    "allocator.profile",
    "allocator.name",
    "source",
)  # the source is described separately


def variants(report: Report) -> list[tuple[str, str]]:
    """Return (name, description) of each variant: its allocator and the settings in which variants differ."""
    spec = report.experiment.spec_json.get("variants") or {}
    flat = {name: flatten(value) for name, value in spec.items() if isinstance(value, dict)}
    keys = dict.fromkeys(
        key
        for facts in flat.values()
        for key in facts
        if not key.startswith(("source.", "server.")) and key not in SILENT
    )
    apart = [k for k in keys if len({facts.get(k, "") for facts in flat.values()}) > 1]
    sources = {} if shared_source(report) else _sources(report)
    described = []
    for variant in report.comparison.variants:
        facts = flat.get(variant, {})
        if isinstance(server := (spec.get(variant) or {}).get("server"), dict):
            parts = [command(server)]
        else:
            parts = [_allocator(facts.get("allocator.name", ""))] if facts else []
        parts += [f"{k.rsplit('.', 1)[-1]} {facts[k]}" for k in apart if facts.get(k)]
        described.append((variant, ", ".join(filter(None, [*parts, sources.get(variant, "")]))))
    return described


def shared_source(report: Report) -> str:
    """Return the source of all variants; empty if they differ or one is unknown."""
    sources = _sources(report)
    known = {sources.get(variant, "") for variant in report.comparison.variants}
    return known.pop() if len(known) == 1 else ""


def _sources(report: Report) -> dict[str, str]:
    return {name: fact.value for fact in report.sources for name in fact.label.split(", ")}


def _allocator(name: str) -> str:
    return {"system": "the system's allocator (glibc)", "": ""}.get(name, name)


def workloads(report: Report) -> list[tuple[str, str]]:
    """Return (name, description) of the measured workloads."""
    spec = report.experiment.spec_json.get("workloads") or {}
    measured = {case.workload for case in report.comparison.cases}
    return [
        (name, workload_words(value))
        for name, value in spec.items()
        if name in measured and isinstance(value, dict)
    ]


def workload_words(workload: Mapping[str, Any]) -> str:
    """Describe a workload: `20 % reads, 80 % writes of 256 B; 50,000 documents`; other types by settings."""
    kind = workload.get("type")
    if kind == "pillowfight":
        share = float(workload.get("set_share", 80.0))
        words = (
            f"{100 - share:g} % reads, {share:g} % writes of {_range(workload.get('value_size'))} B"
        )
    elif kind == "append":
        fields = workload.get("fields")
        of = f" of {_range(fields)} fields" if fields else ""
        words = f"documents{of} are read, extended by one field and written back, {workload.get('rounds', 5)} rounds"
    elif kind == "step":
        share = float(workload.get("set_share", 50.0))
        words = (
            f"{workload.get('change')} under load: {100 - share:g} % reads, {share:g} % writes of"
            f" {_range(workload.get('value_size'))} B"
        )
    elif kind == "sdk":
        share = float(workload.get("set_share", 20.0))
        words = (
            f"the Couchbase SDK, {100 - share:g} % reads, {share:g} % writes of"
            f" {_range(workload.get('value_size'))} B, one at a time in {workload.get('processes')} processes a client"
        )
        return f"{words}; {_count(workload.get('items'))} documents, verified"
    else:
        settings = {k: v for k, v in workload.items() if v not in (None, "", {}, [])}
        return ", ".join(f"{k} {v}" for k, v in flatten(settings).items())
    words += f"; {_count(workload.get('items'))} documents"
    connections = int(workload.get("threads") or 1) * int(workload.get("connections") or 1)
    words += f", {connections} connection{'' if connections == 1 else 's'}"
    if workload.get("rate_limit"):
        words += f", at most {_count(workload['rate_limit'])} operations a second"
    return words


def _range(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = value
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return str(value)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
