"""Describe the variants: their settings, their sources with the distance from the baseline's, and equal builds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.noise import is_aa
from perfrunner.domain import WITHOUT_AN_ENGINE
from perfrunner.report.model import Fact
from perfrunner.sources.model import FACT, IN_USE, Distance, distance_of, source_of

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


def short_build_id(record: BuildRecord) -> str:
    """Return enough of a build id to recognize it. That of another server begins with its program's name."""
    return record.build_id if "server" in record.provenance else record.build_id[:12]


def _build(record: BuildRecord) -> str:
    host = record.provenance.get("build_host")
    return f"; build {short_build_id(record)}{f', built on {host}' if host else ''}"


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
    preset = f"preset {allocator['preset']}" if allocator.get("preset") else ""
    params = {**(engine_params or {}), **(variant.get("params") or {})}
    parts = [
        " ".join(filter(None, (str(allocator.get("name", "")), preset, options))),
        _pairs("", variant.get("options")),
        _pairs("param ", params),
        _pairs("env ", variant.get("env")),
        f"settings check skips {', '.join(settings_check['skip'])}"
        if (settings_check := variant.get("settings_check"))
        else "",
    ]
    return "; ".join(filter(None, parts))


def command(server: Mapping[str, Any]) -> str:
    """Return the command of a server as a shell would read it, and its image or the revision that it is built from."""
    words = [
        word if _PLAIN.fullmatch(word) else quote(word) for word in map(str, server["command"])
    ]
    if server.get("image"):
        return f"{' '.join(words)} in {server['image']}"
    if not server.get("git"):
        return " ".join(words)
    return f"{' '.join(words)} of {server['git']}@{server.get('revision') or 'HEAD'}"


def _pairs(label: str, settings: Mapping[str, Any] | None) -> str:
    return label + ", ".join(f"{k}={v}" for k, v in settings.items()) if settings else ""


OF_AN_VARIANT = (
    "name",
    "source",
    "settings_check",
)  # fields of a variant that do not change its program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.results import ExperimentData


def source_facts(data: ExperimentData) -> tuple[Fact, ...]:
    """Return the lines of the section; none if sources were not recorded (an older store)."""
    recorded = data.experiment.facts.get(FACT)
    return tuple(_lines(data, recorded)) if isinstance(recorded, dict) else ()


def _lines(data: ExperimentData, recorded: Mapping[str, Any]) -> Iterable[Fact]:
    by_source: dict[str, list[str]] = defaultdict(list)
    for variant, record in recorded["variants"].items():
        by_source[source_of(record).text].append(variant)
    for text, variants in by_source.items():
        yield Fact(", ".join(variants), text)
    for label, record in (recorded.get("tools_of") or {"every variant": recorded["tools"]}).items():
        tools = source_of(record)
        if any(source["sha256"] != tools.sha256 for source in recorded["variants"].values()):
            yield Fact(f"load tools of {label}", tools.text)
    baseline = str(data.experiment.spec_json.get("baseline", ""))
    for variant, record in recorded.get("distances", {}).items():
        yield from _distance(f"{baseline}..{variant}", distance_of(record))


def _distance(label: str, distance: Distance) -> Iterable[Fact]:
    yield Fact(label, distance.text)
    for line in distance.log:
        sha, _, title = line.partition(" ")
        yield Fact(f"commit {sha}", title)
    left_out = (distance.ahead or 0) - len(distance.log)
    if left_out > 0:
        yield Fact("commits", f"and {left_out} more")
    if distance.changed:
        shown = [f"{name} +{added} -{removed}" for name, added, removed in distance.changed]
        more = distance.files - len(shown)
        yield Fact("files", ", ".join([*shown, *([f"and {more} more"] if more > 0 else [])]))


def pinned_sources(data: ExperimentData) -> list[str]:
    """Return the options that pin a run to the commits of this one, even if its branches have moved."""
    recorded = data.experiment.facts.get(FACT)
    if not isinstance(recorded, dict):
        return []
    options = []
    aa = list(data.experiment.facts.get("command") or ())[1:2] == ["aa"]
    for variant, record in recorded["variants"].items():
        source = source_of(record)
        if aa and variant != data.experiment.spec_json["baseline"]:
            continue  # the spec has no variant of this second name
        if source.revision and source.commit is not None:
            options += ["--source", f"{variant}={source.commit[:12]}"]
    return options


def trees_note(data: ExperimentData) -> str:
    """Return a shell comment with the content hashes of source trees, which no option can restore."""
    recorded = data.experiment.facts.get(FACT)
    if not isinstance(recorded, dict):
        return ""
    trees = [
        f"{variant}: the tree had content {source.sha256[:12]}"
        for variant, source in ((v, source_of(r)) for v, r in recorded["variants"].items())
        if not source.revision and source.name != IN_USE
    ]
    return f"  # {'; '.join(trees)}" if trees else ""


def same_builds(data: ExperimentData) -> Iterable[str]:
    """Warn about variants that are the same program with the same settings: their difference is noise.

    In a workload without an engine this includes variants that differ only in engine parameters.
    """
    spec = data.experiment.spec_json
    if is_aa(spec):
        return
    for build_id, names in _alike(data, OF_AN_VARIANT):
        yield f"{names} are the same build ({build_id}) with the same settings: this is an A/A"
    tools = [
        name
        for name, workload in (spec.get("workloads") or {}).items()
        if workload.get("type") in WITHOUT_AN_ENGINE
    ]
    if tools:
        for build_id, names in _alike(data, (*OF_AN_VARIANT, "params")):
            yield (
                f"{names} are the same build ({build_id}): their params are the engine's, which {', '.join(tools)}"
                " does not run; there this is an A/A"
            )


def _alike(data: ExperimentData, leaving_out: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    """Yield build ids with their variants whose settings are equal apart from the fields left out."""
    variants = data.experiment.spec_json.get("variants") or {}
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for build in data.builds:
        variant = {k: v for k, v in variants.get(build.variant, {}).items() if k not in leaving_out}
        alike[build.build_id, repr(sorted(variant.items(), key=str))].append(build.variant)
    for (build_id, _), names in alike.items():
        if len(names) > 1:
            yield build_id, " and ".join(names)
