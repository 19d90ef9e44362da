"""Facts about hosts, builds and trials: flattened, compared between the arms, and made readable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.results import BuildRecord, TrialRecord

# Differ between builds by design: what a variant is, or merely when and where it was made. Sources have a section.
EXPECTED_TO_DIFFER = ("allocator", "option", "variant", "build_id", "built_at", "date", "time", "path", "cached",
                      "seconds", "cmake", "artifact", "hash", "files", "log", "sha", "libraries",
                      "source.")  # fmt: skip
MOST_SHOWN = 12


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
    """Provenance that is not the same for all arms, apart from what makes a variant."""
    by_variant = {b.variant: flatten(b.provenance) for b in builds}
    keys = dict.fromkeys(key for facts in by_variant.values() for key in facts)
    lines = []
    for key in keys:
        if any(part in key.lower() for part in EXPECTED_TO_DIFFER):
            continue
        values = {v: facts.get(key, "absent") for v, facts in by_variant.items()}
        if len(set(values.values())) > 1:
            lines.append(f"builds differ in {key}: {_by_value(values)}")
    return lines


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
    return "; ".join(f"{value or 'empty'} ({', '.join(names)})" for value, names in arms.items())
