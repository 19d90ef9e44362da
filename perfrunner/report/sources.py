"""What was built: the source of each arm, how far it is from the baseline's, and where the load tools are from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.noise import is_aa
from perfrunner.report.model import Fact
from perfrunner.source import FACT
from perfrunner.source.model import IN_USE, Distance, distance_of, source_of

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
    tools = source_of(recorded["tools"])
    if any(record["sha256"] != tools.sha256 for record in recorded["arms"].values()):
        yield Fact("load tools of every arm", tools.text)
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
    """Arms of differently named sources that are one program with the same settings: what they differ by is noise."""
    variants = data.experiment.spec_json.get("variants") or {}
    if is_aa(data.experiment.spec_json):
        return
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for build in data.builds:
        arm = {
            k: v for k, v in variants.get(build.variant, {}).items() if k not in ("name", "source")
        }
        alike[build.build_id, repr(sorted(arm.items(), key=str))].append(build.variant)
    for (build_id, _), names in alike.items():
        if len(names) > 1:
            yield f"{' and '.join(names)} are the same build ({build_id}) with the same settings: this is an A/A"
