"""Flatten facts about hosts, builds and trials, compare them between variants, and format them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from perfrunner.results import BuildRecord, TrialRecord

    Words: TypeAlias = tuple[str, ...]

# Parts of a build's provenance that may differ between variants: the variant's definition, when and how its artifact
# was built, and the path of the compiler. Sources have a separate section.
MAY_DIFFER = (
    "allocator", "build_id", "built_at", "cmake", "compiler.path", "options", "recipe", "seconds", "source",
)  # fmt: skip
FLAG_OF_THE_ALLOCATOR = "-DKV_ALLOCATOR_NAME="
MAY_BE_ABSENT = ("cargo",)  # only some allocators are built with it
MOST_SHOWN = 12
DIGEST, BEGINNING = (
    re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b"),
    r"\1",
)  # twelve digits identify a digest


def flatten(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested mappings as dotted keys and other values as text."""
    flat: dict[str, str] = {}
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        elif isinstance(value, (list, tuple)):
            flat[name] = ", ".join(str(v) for v in value)
        else:
            flat[name] = "" if value is None else str(value)
    return flat


def differing_builds(builds: Iterable[BuildRecord]) -> list[str]:
    """Return unexpected differences of provenance between variants; of lists only the entries that differ."""
    by_variant = {b.variant: dict(_leaves(b.provenance)) for b in builds}
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


def _leaves(facts: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str | Words]]:
    """Flatten mappings like `flatten`, but keep lists."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            items = map(str, value)
            yield name, tuple(item for item in items if not item.startswith(FLAG_OF_THE_ALLOCATOR))
        else:
            yield name, "" if value is None else str(value)


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


def differing_hosts(trials: Iterable[TrialRecord]) -> list[str]:
    """Return host facts (`facts.host...`) that differ between trials."""
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for trial in trials:
        for group in ("host", "hosts"):
            recorded = trial.facts.get(group)
            for key, value in flatten(recorded).items() if isinstance(recorded, Mapping) else ():
                seen[key][trial.variant].add(value)
    lines = []
    for key, by_variant in seen.items():
        if len(set().union(*by_variant.values())) > 1:
            values = {v: "/".join(sorted(texts)) for v, texts in by_variant.items()}
            lines.append(f"host fact {key}: {_by_value(values)}")
    return lines


def trial_notes(trials: Iterable[TrialRecord]) -> list[str]:
    """Return the notes of trials (`facts.note`, `facts.notes`), grouped by case and variant."""
    grouped: dict[tuple[str, str, str], list[tuple[int, str]]] = defaultdict(list)
    for trial in trials:
        given = trial.facts.get("notes") or ([trial.facts["note"]] if "note" in trial.facts else [])
        for note in [given] if isinstance(given, str) else given:
            key = (trial.workload, trial.bucket, trial.variant)
            grouped[key].append((trial.block, str(note)))
    lines = []
    for (workload, bucket, variant), notes in grouped.items():
        blocks = ", ".join(str(block) for block, _ in notes)
        more = "" if len(notes) == 1 else f" (and {len(notes) - 1} more)"
        lines.append(f"{workload} {bucket} {variant}, block {blocks}: {notes[0][1]}{more}")
    return lines


def limited(lines: list[str], what: str) -> list[str]:
    """Return the first lines, and the number of the remaining ones."""
    if len(lines) <= MOST_SHOWN:
        return lines
    return [*lines[:MOST_SHOWN], f"... and {len(lines) - MOST_SHOWN} more {what}"]


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
