"""What was built: the source of each arm, how far it is from the baseline's, and where the load tools are from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.noise import is_aa
from perfrunner.report.model import Fact
from perfrunner.source import FACT
from perfrunner.source.model import IN_USE, Distance, distance_of, source_of
from perfrunner.spec.cell import WITHOUT_AN_ENGINE

OF_AN_ARM = ("name", "source", "proof")  # of a variant what makes it no other program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.results import ExperimentData


def source_facts(data: ExperimentData) -> tuple[Fact, ...]:
    """The section, line by line; nothing where it was not recorded (an older store)."""
    recorded = data.experiment.facts.get(FACT)
    return tuple(_lines(data, recorded)) if isinstance(recorded, dict) else ()


def _lines(data: ExperimentData, recorded: Mapping[str, Any]) -> Iterable[Fact]:
    arms: dict[str, list[str]] = defaultdict(list)
    for variant, record in recorded["arms"].items():
        arms[source_of(record).text].append(variant)
    for text, variants in arms.items():
        yield Fact(", ".join(variants), text)
    for label, record in (recorded.get("tools_of") or {"every arm": recorded["tools"]}).items():
        tools = source_of(record)
        if any(arm["sha256"] != tools.sha256 for arm in recorded["arms"].values()):
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
    """Options that give a run the commits of this one, wherever its branches are by now."""
    recorded = data.experiment.facts.get(FACT)
    if not isinstance(recorded, dict):
        return []
    words = []
    aa = list(data.experiment.facts.get("command") or ())[1:2] == ["aa"]
    for variant, record in recorded["arms"].items():
        source = source_of(record)
        if aa and variant != data.experiment.spec_json["baseline"]:
            continue  # the arm's second name: no spec has it
        if source.revision and source.commit is not None:
            words += ["--source", f"{variant}={source.commit[:12]}"]
    return words


def trees_note(data: ExperimentData) -> str:
    """Behind the command that measures it again: of what content the named trees were, which no option gives back."""
    recorded = data.experiment.facts.get(FACT)
    if not isinstance(recorded, dict):
        return ""
    trees = [
        f"{variant}: the tree had content {source.sha256[:12]}"
        for variant, source in ((v, source_of(r)) for v, r in recorded["arms"].items())
        if not source.revision and source.name != IN_USE
    ]
    return f"  # {'; '.join(trees)}" if trees else ""


def same_builds(data: ExperimentData) -> Iterable[str]:
    """Arms of differently named sources that are one program with the same settings: what they differ by is noise.

    So are, in a workload that runs no engine, arms that differ in the engine's parameters alone.
    """
    spec = data.experiment.spec_json
    if is_aa(spec):
        return
    for build_id, names in _alike(data, OF_AN_ARM):
        yield f"{names} are the same build ({build_id}) with the same settings: this is an A/A"
    tools = [
        name
        for name, workload in (spec.get("workloads") or {}).items()
        if workload.get("type") in WITHOUT_AN_ENGINE
    ]
    if tools:
        for build_id, names in _alike(data, (*OF_AN_ARM, "params")):
            yield (
                f"{names} are the same build ({build_id}): their params are the engine's, which {', '.join(tools)}"
                " does not run; there this is an A/A"
            )


def _alike(data: ExperimentData, leaving_out: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    """Build ids, each with the arms of it whose settings are the same but for what is left out."""
    variants = data.experiment.spec_json.get("variants") or {}
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for build in data.builds:
        arm = {k: v for k, v in variants.get(build.variant, {}).items() if k not in leaving_out}
        alike[build.build_id, repr(sorted(arm.items(), key=str))].append(build.variant)
    for (build_id, _), names in alike.items():
        if len(names) > 1:
            yield build_id, " and ".join(names)
