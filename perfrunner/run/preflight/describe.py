"""What is written down of the hosts when a run begins or goes on: facts, changes, preconditions, warnings."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.run.events import Warned
from perfrunner.run.trial.validity import changed_facts
from perfrunner.spec.model import Spec
from perfrunner.spec.preconditions import MEASURED

THP_REMEDY = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
_FEWEST_CPUS = {"two_cores": 2, "three_cores": 3}

TOOLS_BUILDS = "tools_builds"  # fact: build ids that load tools and samplers were from, in order

HostFacts = Mapping[str, Mapping[str, object]]  # by host name


@dataclass(frozen=True)
class Description:
    """`facts` replace the experiment's; `changes` happened since its trials were last run."""

    facts: dict[str, Any]
    changes: list[str]
    warnings: list[Warned]


def describe(spec: Spec, recorded: Mapping[str, Any], hosts: HostFacts) -> Description:
    """The first run's `hosts` are kept under "hosts"; a resumed run that finds others adds "latest_hosts"."""
    facts = dict(recorded)
    now = {name: dict(found) for name, found in hosts.items()}
    before = facts.get("latest_hosts") or facts.setdefault("hosts", now)
    facts.setdefault("controller", {"host": platform.node(), "python": platform.python_version()})
    changes = [
        f"{name}: {change}"
        for name in now
        for change in changed_facts(before.get(name, {}), now[name])
    ]
    warnings = []
    if changes:
        note_changes(facts, now, changes)
        warnings.append(Warned(f"the hosts changed since the trials before: {'; '.join(changes)}"))
    engine_facts = [now[name] for name in spec.cluster.engine_nodes]
    facts["preconditions"] = check_preconditions(spec.preconditions, engine_facts)
    for name, holds in facts["preconditions"].items():
        if not holds:
            state = "cannot be checked" if holds is None else "does not hold"
            warnings.append(Warned(f"precondition {name} {state} on the engine node"))
    if idle := idle_metadata_thp(spec, engine_facts):
        mode = engine_facts[0].get("thp_enabled")
        text = f"metadata_thp of {', '.join(idle)} has no effect: huge pages are in mode {mode}"
        warnings.append(Warned(text, THP_REMEDY))
    return Description(facts, changes, warnings)


def note_changes(facts: dict[str, Any], now: HostFacts, changes: Sequence[str]) -> None:
    """In the experiment's facts: the hosts are others than they were."""
    facts["latest_hosts"] = {name: dict(found) for name, found in now.items()}
    facts["changes"] = [*facts.get("changes", []), *changes]


def note_tools(facts: dict[str, Any], build_id: str) -> str | None:
    """In the experiment's facts: the build that load tools and samplers are from. What to say when it was another."""
    before = list(facts.get(TOOLS_BUILDS, ()))
    if before[-1:] != [build_id]:
        facts[TOOLS_BUILDS] = [*before, build_id]
    if not before or before[-1] == build_id:
        return None
    return f"the load tools are another build than before: {before[-1]}, now {build_id}"


def check_preconditions(
    names: Sequence[str], engine_facts: Sequence[Mapping[str, object]]
) -> dict[str, bool | None]:
    """Whether each named precondition holds on every engine node; None when a host does not show it.

    Those that only the measurement shows are left out: the report looks at them.
    """
    return {name: _holds(name, engine_facts) for name in names if name not in MEASURED}


def idle_metadata_thp(spec: Spec, engine_facts: Sequence[Mapping[str, object]]) -> list[str]:
    """Variants whose metadata_thp can do nothing: jemalloc acts only where the system's mode is `madvise`."""
    if all(facts.get("thp_enabled", "madvise") == "madvise" for facts in engine_facts):
        return []
    return [
        name
        for name, variant in spec.variants.items()
        if variant.allocator.options.get("metadata_thp", "disabled") != "disabled"
    ]


def _holds(name: str, engine_facts: Sequence[Mapping[str, object]]) -> bool | None:
    if name == "thp_madvise":
        values = [facts.get("thp_enabled") for facts in engine_facts]
        return None if None in values else all(value == "madvise" for value in values)
    if name in _FEWEST_CPUS:
        counts = [facts.get("cpus") for facts in engine_facts]
        known = [count for count in counts if isinstance(count, int)]
        enough = all(count >= _FEWEST_CPUS[name] for count in known)
        return enough if len(known) == len(counts) else None
    if name == "two_caches":
        domains = [facts.get("l3_domains") for facts in engine_facts]
        shown = [caches for caches in domains if isinstance(caches, list)]
        return all(len(caches) >= 2 for caches in shown) if len(shown) == len(domains) else None
    raise ValueError(f"precondition {name} is not implemented")
