"""Describe what was compared: the variants and their sources, and in which facts the builds differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.noise import is_aa
from perfrunner.domain import NO_BUCKET
from perfrunner.report.model import Fact
from perfrunner.sources.model import IN_USE, SOURCES_FACT, Distance, distance_of, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from perfrunner.results import BuildRecord, ExperimentData, TrialRecord

    Words: TypeAlias = tuple[str, ...]


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


# Fields of a variant that do not change its program.
NOT_IN_THE_PROGRAM = ("name", "source", "settings_check")


def source_facts(data: ExperimentData) -> tuple[Fact, ...]:
    """Return the lines of the section; none if sources were not recorded (an older store)."""
    recorded = data.experiment.facts.get(SOURCES_FACT)
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
    recorded = data.experiment.facts.get(SOURCES_FACT)
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
    recorded = data.experiment.facts.get(SOURCES_FACT)
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
    for build_id, names in _alike(data, NOT_IN_THE_PROGRAM):
        yield f"{names} are the same build ({build_id}) with the same settings: this is an A/A"
    for build_id, names in _same_programs(data):
        yield (
            f"{names} are the same program ({build_id}) with the same arguments: unless it loads other files that"
            " differ, this is an A/A"
        )
    tools = dict.fromkeys(trial.workload for trial in data.trials if trial.bucket == NO_BUCKET)
    if tools:
        for build_id, names in _alike(data, (*NOT_IN_THE_PROGRAM, "params")):
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


def _same_programs(data: ExperimentData) -> Iterable[tuple[str, str]]:
    """Yield build ids with their variants that are the same program of a server under several paths or revisions.

    A program without a directory is often an interpreter: what it runs differs.
    """
    variants = data.experiment.spec_json.get("variants") or {}
    alike: dict[tuple[str, str], list[BuildRecord]] = defaultdict(list)
    for build in data.builds:
        variant = variants.get(build.variant, {})
        if (server := variant.get("server")) is None:
            continue
        program, *arguments = server["command"]
        if "/" in program:
            own = {k: v for k, v in server.items() if k not in ("git", "revision", "build")}
            same = {**variant, "server": {**own, "command": arguments}, "name": None}
            content = build.build_id.rpartition("-")[2]
            alike[content, repr(sorted(same.items()))].append(build)
    for builds in alike.values():
        names = [build.variant for build in builds]
        if len({repr(variants[name]["server"]) for name in names}) > 1:
            yield builds[0].build_id, " and ".join(names)


# Parts of a build's provenance that may differ between variants: the variant's definition, when and how its artifact
# was built, and the path of the compiler. Sources have a separate section.
MAY_DIFFER = (
    "allocator", "build_id", "built_at", "cmake", "compiler.path", "options", "recipe", "seconds", "source",
)  # fmt: skip
FLAG_OF_THE_ALLOCATOR = "-DKV_ALLOCATOR_NAME="
MAY_BE_ABSENT = ("cargo",)  # only some allocators are built with it
MOST_SHOWN = 12
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b")
BEGINNING = r"\1"  # twelve digits identify a digest


def flatten(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return nested mappings as dotted keys and other values as text."""
    return {
        name: value if isinstance(value, str) else ", ".join(value)
        for name, value in _leaves(facts)
    }


def _leaves(facts: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str | Words]]:
    """Yield the dotted keys of nested mappings with their values as text; keep lists."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            yield name, tuple(map(str, value))
        else:
            yield name, "" if value is None else str(value)


def differing_builds(builds: Iterable[BuildRecord]) -> list[str]:
    """Return unexpected differences of provenance between variants; of lists only the entries that differ."""
    by_variant = {
        b.variant: {key: _without_allocator(value) for key, value in _leaves(b.provenance)}
        for b in builds
    }
    keys = dict.fromkeys(key for facts in by_variant.values() for key in facts)
    lines = []
    for key in keys:
        if any(key == name or key.startswith(f"{name}.") for name in MAY_DIFFER):
            continue
        values = {v: facts.get(key, "absent") for v, facts in by_variant.items()}
        if key in MAY_BE_ABSENT:
            values = {v: value for v, value in values.items() if value not in ("", "absent")}
        if len(set(values.values())) > 1:
            lines.append(f"builds differ in {key}: {_by_value(_without_common(values))}")
    return lines


def _without_allocator(value: str | Words) -> str | Words:
    """Return a list without the flag that names the allocator of the variant."""
    if isinstance(value, str):
        return value
    return tuple(item for item in value if not item.startswith(FLAG_OF_THE_ALLOCATOR))


def _without_common(values: Mapping[str, str | Words]) -> dict[str, str]:
    """Return values as text, lists without their common entries; lists that differ only in order stay whole."""
    lists = [set(value) for value in values.values() if isinstance(value, tuple)]
    common = (
        set.intersection(*lists)
        if lists and any(entries != lists[0] for entries in lists)
        else set()
    )
    return {
        variant: value
        if isinstance(value, str)
        else ", ".join(word for word in value if word not in common) or "none"
        for variant, value in values.items()
    }


def trial_notes(trials: Iterable[TrialRecord]) -> list[str]:
    """Return the notes of trials (`facts.note`), grouped by case and variant."""
    grouped: dict[tuple[str, str, str], list[tuple[int, str]]] = defaultdict(list)
    for trial in trials:
        if "note" in trial.facts:
            key = (trial.workload, trial.bucket, trial.variant)
            grouped[key].append((trial.block, str(trial.facts["note"])))
    lines = []
    for (workload, bucket, variant), notes in grouped.items():
        blocks = ", ".join(str(block) for block, _ in notes)
        more = "" if len(notes) == 1 else f" (and {len(notes) - 1} more)"
        lines.append(f"{workload} {bucket} {variant}, block {blocks}: {notes[0][1]}{more}")
    return lines


def limited(lines: list[str]) -> list[str]:
    """Return the first differences, and the number of the remaining ones."""
    if len(lines) <= MOST_SHOWN:
        return lines
    return [*lines[:MOST_SHOWN], f"... and {len(lines) - MOST_SHOWN} more differences"]


def _by_value(values: Mapping[str, str]) -> str:
    variants: dict[str, list[str]] = defaultdict(list)
    for variant, value in values.items():
        variants[value].append(variant)
    return "; ".join(
        f"{DIGEST.sub(BEGINNING, value) or 'empty'} ({', '.join(names)})"
        for value, names in variants.items()
    )


def build_facts(build: BuildRecord) -> dict[str, str]:
    """Return the provenance of a build and the settings read back from its engine."""
    return flatten(build.provenance) | {f"read back: {k}": v for k, v in build.settings.items()}


def shared_build(builds: Sequence[BuildRecord]) -> dict[str, str]:
    """Return the facts that all builds have in common."""
    first, *others = [build_facts(build) for build in builds] or [{}]
    if not others:
        return {}
    return {k: v for k, v in first.items() if all(k in other and other[k] == v for other in others)}


def own_facts(build: BuildRecord, builds: Sequence[BuildRecord]) -> dict[str, str]:
    """Return the facts of `build` that not all builds share."""
    shared = shared_build(builds)
    return {k: v for k, v in build_facts(build).items() if k not in shared}
