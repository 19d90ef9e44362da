"""Apply `profiles:` of a spec: named overlays, one of which `--profile NAME` merges over the spec.

    profiles:
      historic:
        blocks: 20
        workloads: {append: {items: 5M}}

Mappings are merged key by key, everything else is replaced. The experiment keeps its name and records
the name of the profile.
"""

from __future__ import annotations

from pathlib import Path

from perfrunner.spec.document import Node, describe, load_document
from perfrunner.spec.includes import merged, shown
from perfrunner.spec.problems import Problems
from perfrunner.spec.suggest import expected_name

KEY, CHOSEN = "profiles", "profile"


def with_profile(root: Node, name: str | None, problems: Problems) -> Node:
    """Return the spec without its profiles, and with the named one merged over it."""
    profiles = root.get(KEY)
    chosen = root.get(CHOSEN)
    if chosen is not None:
        remedy = "set it in a workload" if chosen.value == "perf" else "choose one with --profile"
        text = f"expected no profile at the top level of a spec ({remedy}); got {chosen.value}"
        problems.add(chosen.mark, "", text)
    root = root.without(KEY, CHOSEN)
    if profiles is not None:
        _check(profiles, problems)
    if name is None:
        return root
    known = profiles.value if profiles is not None and isinstance(profiles.value, dict) else {}
    overlay = known.get(name)
    if overlay is None:
        mark = root.mark if profiles is None else profiles.mark
        text = f"expected no profile, because the spec has none; got {name}"
        problems.add(
            mark, "", expected_name("a profile of the spec", name, known) if known else text
        )
        return root
    if not overlay.is_mapping:
        return root
    whole = merged(root, overlay.without("name"))
    return Node({**whole.value, CHOSEN: Node(name, overlay.mark)}, root.mark)


def _check(profiles: Node, problems: Problems) -> None:
    if not isinstance(profiles.value, dict):
        problems.add(profiles.mark, "", f"expected a mapping, got {describe(profiles.value)}")
        return
    for overlay in profiles.value.values():
        if not overlay.is_mapping:
            problems.add(overlay.mark, "", f"expected a mapping, got {describe(overlay.value)}")
        elif (named := overlay.get("name")) is not None:
            problems.add(
                named.mark, "", "expected no name in a profile (the experiment keeps its name)"
            )


def profile_names(path: Path) -> tuple[str, ...]:
    """Return the names of a spec file's profiles; empty if unreadable (loading reports why)."""
    root = load_document(path, shown(path), Problems())
    profiles = None if root is None else root.get(KEY)
    return tuple(profiles.value) if profiles is not None and profiles.is_mapping else ()
