"""Record the facts of the hosts and their changes since the first trials, and check the preconditions."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.domain import MEASURED_PRECONDITIONS
from perfrunner.errors import UsageError
from perfrunner.experiment.events import Warned
from perfrunner.experiment.trial.outcome import changed_facts
from perfrunner.hosts.facts import usable_cpus
from perfrunner.spec.model import Spec

THP_REMEDY = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
_FEWEST_CPUS = {"two_cores": 2, "three_cores": 3}

TOOLS_BUILDS = "tools_builds"  # fact: build ids of the load tools and samplers, in order of use

SERVERS = "servers"  # fact: names of the programs of other servers, with their content, by variant

HostFacts = Mapping[str, Mapping[str, object]]  # by host name


@dataclass(frozen=True)
class Description:
    """The description of the hosts at the start of a run.

    `facts` replace those of the experiment; `changes` happened since its previous trials.
    """

    facts: dict[str, Any]
    changes: list[str]
    warnings: list[Warned]


def describe(spec: Spec, recorded: Mapping[str, Any], hosts: HostFacts) -> Description:
    """Describe the hosts and compare them with the recorded facts.

    The fact "hosts" is from the first run. A resumed run on changed hosts adds "latest_hosts".
    """
    facts = dict(recorded)
    now = {name: dict(host) for name, host in hosts.items()}
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
        warnings.append(
            Warned(f"the hosts changed since the previous trials: {'; '.join(changes)}")
        )
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
    """Record in the facts of the experiment that the hosts changed."""
    facts["latest_hosts"] = {name: dict(host) for name, host in now.items()}
    facts["changes"] = [*facts.get("changes", []), *changes]


def note_tools(facts: dict[str, Any], build_id: str) -> str | None:
    """Record the build of the load tools in the facts; return a warning if it differs from the previous one."""
    before = list(facts.get(TOOLS_BUILDS, ()))
    if before[-1:] != [build_id]:
        facts[TOOLS_BUILDS] = [*before, build_id]
    if not before or before[-1] == build_id:
        return None
    return f"the build of the load tools changed from {before[-1]} to {build_id}"


def note_servers(facts: dict[str, Any], build_ids: Mapping[str, str]) -> None:
    """Record the programs of variants that are other servers; raise UsageError if one has changed since."""
    before = facts.setdefault(SERVERS, dict(build_ids))
    for name, build_id in build_ids.items():
        if before.get(name, build_id) != build_id:
            raise UsageError(
                f"variant {name}: its program or its preloaded library has changed since the run began"
                f" ({before[name]}, now {build_id})",
                "put it back, or start a new run without --resume",
            )


def check_preconditions(
    names: Sequence[str], engine_facts: Sequence[Mapping[str, object]]
) -> dict[str, bool | None]:
    """Return whether each named precondition holds on every engine node; None if a host does not report it.

    Preconditions that only a measurement can show are omitted here; the report checks them.
    """
    return {
        name: _holds(name, engine_facts) for name in names if name not in MEASURED_PRECONDITIONS
    }


def idle_metadata_thp(spec: Spec, engine_facts: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the variants whose metadata_thp has no effect: jemalloc needs the system's mode to be `madvise`."""
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
        counts = [usable_cpus(facts) for facts in engine_facts]
        known = [count for count in counts if count is not None]
        enough = all(count >= _FEWEST_CPUS[name] for count in known)
        return enough if len(known) == len(counts) else None
    if name == "two_caches":
        domains = [facts.get("l3_domains") for facts in engine_facts]
        shown = [caches for caches in domains if isinstance(caches, list)]
        return all(len(caches) >= 2 for caches in shown) if len(shown) == len(domains) else None
    raise ValueError(f"precondition {name} is not implemented")
