"""Facts about hosts, builds and trials: flattened, compared between the arms, and made readable."""

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

# What of a build's provenance may differ between arms, with all that is below it: what a variant is, when and by what
# its artifact was made, and where the compiler lies. Sources have a section of their own.
MAY_DIFFER = (
    "allocator", "build_id", "built_at", "cmake", "compiler.path", "options", "recipe", "seconds", "source",
)  # fmt: skip
FLAG_OF_THE_ALLOCATOR = "-DKV_ALLOCATOR_NAME="
MAY_BE_ABSENT = ("cargo",)  # only an allocator that is built with it has one
MOST_SHOWN = 12
DIGEST, BEGINNING = (
    re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b"),
    r"\1",
)  # enough to tell two apart


def flatten(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as dotted keys; other values as text."""
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
    """Provenance that is not the same for all arms, apart from what may differ; of lists what not all of them have."""
    by_variant = {b.variant: dict(_leaves(b.provenance)) for b in builds}
    keys = dict.fromkeys(key for facts in by_variant.values() for key in facts)
    lines = []
    for key in keys:
        if any(key == name or key.startswith(f"{name}.") for name in MAY_DIFFER):
            continue
        found = {v: facts.get(key, "absent") for v, facts in by_variant.items()}
        if key in MAY_BE_ABSENT:
            found = {v: value for v, value in found.items() if value not in ("", "absent")}
        if len(set(found.values())) > 1:
            lines.append(f"builds differ in {key}: {_by_value(_without_common(found))}")
    return lines


def _leaves(facts: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str | Words]]:
    """As `flatten`, but lists stay lists."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            words = map(str, value)
            yield name, tuple(w for w in words if not w.startswith(FLAG_OF_THE_ALLOCATOR))
        else:
            yield name, "" if value is None else str(value)


def _without_common(found: Mapping[str, str | Words]) -> dict[str, str]:
    """As text. Two lists of twenty flags that differ in one are that one; in the order alone, they are whole."""
    lists = [set(value) for value in found.values() if isinstance(value, tuple)]
    common = set.intersection(*lists) if lists and any(one != lists[0] for one in lists) else set()
    return {
        variant: value
        if isinstance(value, str)
        else ", ".join(word for word in value if word not in common) or "none"
        for variant, value in found.items()
    }


def differing_hosts(trials: Iterable[TrialRecord]) -> list[str]:
    """Host facts stored with the trials (`facts.host...`) that were not constant over them."""
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for trial in trials:
        for group in ("host", "hosts"):
            found = trial.facts.get(group)
            for key, value in flatten(found).items() if isinstance(found, Mapping) else ():
                seen[key][trial.variant].add(value)
    lines = []
    for key, by_variant in seen.items():
        if len(set().union(*by_variant.values())) > 1:
            values = {v: "/".join(sorted(texts)) for v, texts in by_variant.items()}
            lines.append(f"host fact {key}: {_by_value(values)}")
    return lines


def trial_notes(trials: Iterable[TrialRecord]) -> list[str]:
    """Notes that trials left about themselves (`facts.note`, `facts.notes`), grouped by place."""
    grouped: dict[tuple[str, str, str], list[tuple[int, str]]] = defaultdict(list)
    for trial in trials:
        given = trial.facts.get("notes") or ([trial.facts["note"]] if "note" in trial.facts else [])
        for note in [given] if isinstance(given, str) else given:
            place = (trial.workload, trial.bucket, trial.variant)
            grouped[place].append((trial.block, str(note)))
    lines = []
    for (workload, bucket, variant), notes in grouped.items():
        blocks = ", ".join(str(block) for block, _ in notes)
        more = "" if len(notes) == 1 else f" (and {len(notes) - 1} more)"
        lines.append(f"{workload} {bucket} {variant}, block {blocks}: {notes[0][1]}{more}")
    return lines


def limited(lines: list[str], what: str) -> list[str]:
    """The first lines, and how many there are besides."""
    if len(lines) <= MOST_SHOWN:
        return lines
    return [*lines[:MOST_SHOWN], f"... and {len(lines) - MOST_SHOWN} more {what}"]


def _by_value(values: Mapping[str, str]) -> str:
    arms: dict[str, list[str]] = defaultdict(list)
    for variant, value in values.items():
        arms[value].append(variant)
    return "; ".join(
        f"{DIGEST.sub(BEGINNING, value) or 'empty'} ({', '.join(names)})"
        for value, names in arms.items()
    )


def build_facts(build: BuildRecord) -> dict[str, str]:
    """What it was made of, and what its engine read back."""
    return flatten(build.provenance) | {f"read back: {k}": v for k, v in build.settings.items()}


def shared_build(builds: Sequence[BuildRecord]) -> dict[str, str]:
    """What all of several builds have in common: told once."""
    first, *others = [build_facts(build) for build in builds] or [{}]
    if not others:
        return {}
    return {k: v for k, v in first.items() if all(k in one and one[k] == v for one in others)}


def own_facts(build: BuildRecord, builds: Sequence[BuildRecord]) -> dict[str, str]:
    """What `build` has beside that."""
    shared = shared_build(builds)
    return {k: v for k, v in build_facts(build).items() if k not in shared}
