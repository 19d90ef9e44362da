"""From a stored experiment to the report's model."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perfrunner.analysis import Comparison, compare, moved_with
from perfrunner.analysis.cells import clean_blocks
from perfrunner.analysis.gains import GainLine, judged_gains
from perfrunner.analysis.metadata_share import ENOUGH, metadata_shares
from perfrunner.analysis.reference import beside
from perfrunner.analysis.sampling import SamplingCost, failed_checks, sampling_costs
from perfrunner.report.facts import differing_builds, differing_hosts, limited, trial_notes
from perfrunner.report.gains import lost_warnings, states_text
from perfrunner.report.method import method_facts, methods
from perfrunner.report.model import Counts, Fact, Moved, Report
from perfrunner.report.noise import NOISE_FLOOR, aa_alarms, known_floors, noise_text
from perfrunner.report.numbers import percent_change, significant
from perfrunner.report.profiles import cell_profiles
from perfrunner.report.sentences import preface, sentences
from perfrunner.report.sources import pinned_sources, same_builds, source_facts, trees_note
from perfrunner.report.two_runs import COMPARED
from perfrunner.report.variants import variant_facts
from perfrunner.results.profiles import FACT as PROFILES
from perfrunner.results.profiles import failed_profiles
from perfrunner.spec.preconditions import MEASURED, PRECONDITIONS
from perfrunner.spec.unproved import unproved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.analysis.noise import NoiseFloor
    from perfrunner.report.profiles import CellProfiles
    from perfrunner.results import ExperimentData
    from perfrunner.spec.reference import Reference

MOST_MOVED = 6
OPEN_HOME = re.compile(r"'~/([\w@%+=:,./-]*)'")  # quoted, a shell would take the ~ for a name


def build_report(
    data: ExperimentData, baseline: str | None = None, reference: Reference | None = None
) -> Report:
    """Analyse and describe; `baseline` re-bases onto another variant, `reference` replaces the recorded spec's."""
    return report_of(data, compare(data, baseline), reference)


def report_of(
    data: ExperimentData, comparison: Comparison, reference: Reference | None = None
) -> Report:
    """The report of a comparison that was made already."""
    counts = _counts(data)
    reference = reference or _recorded_reference(data)
    noise = known_floors(data, comparison)
    measured = methods(data) if comparison.paired else ()
    gains = _gains(data, comparison)
    profiles, unread = _profiles(data, comparison)
    return Report(
        experiment=data.experiment,
        comparison=comparison,
        preface=preface(comparison),
        sentences=sentences(comparison),
        context=tuple(_context(data, comparison, counts, noise, gains)),
        counts=counts,
        moved=tuple(_moved(comparison)),
        notes=(*_row_notes(comparison, primary=True), *trial_notes(data.trials), *unread),
        minor_notes=tuple(_row_notes(comparison, primary=False)),
        warnings=(
            *_state_warnings(data),
            *_not_proved(data),
            *lost_warnings(gains),
            *same_builds(data),
            *aa_alarms(data, comparison),
            *comparison.warnings,
            *_circumstances(data),
        ),
        noise=tuple(noise),
        differing=tuple(
            limited([*differing_hosts(data.trials), *differing_builds(data.builds)], "differences")
        ),
        builds=data.builds,
        facts=data.experiment.facts,
        reproduce=_reproduce(data),
        methods=measured,
        method=method_facts(measured, data, comparison),
        reference=reference,
        beside=() if reference is None else beside(reference, comparison),
        gains=gains,
        sources=source_facts(data),
        profiles=profiles,
    )


def _profiles(
    data: ExperimentData, comparison: Comparison
) -> tuple[tuple[CellProfiles, ...], tuple[str, ...]]:
    """Nothing of two experiments: shares of two machines would mislead."""
    if not comparison.paired:
        return (), ()
    return cell_profiles(data, comparison.cells, comparison.variants)


def _gains(data: ExperimentData, comparison: Comparison) -> tuple[GainLine, ...]:
    """Those of the recorded spec; nothing of two experiments."""
    recorded = data.experiment.spec_json.get("gains")
    if not recorded or not comparison.paired:
        return ()
    from perfrunner.spec.gains import Gain

    return judged_gains(data, comparison, map(Gain.model_validate, recorded))


def _recorded_reference(data: ExperimentData) -> Reference | None:
    recorded = data.experiment.spec_json.get("reference")
    if not recorded:
        return None
    from perfrunner.spec.reference import Reference

    return Reference.model_validate(recorded)


def _row_notes(comparison: Comparison, *, primary: bool) -> Iterable[str]:
    for row in comparison.rows:
        if row.primary == primary:
            for note in row.notes:
                yield f"{row.cell}, {row.variant}: {row.metric.id}: {note}"


def _counts(data: ExperimentData) -> Counts:
    ended = [t.status for t in data.trials]
    used = sum(1 for cell in clean_blocks(data.trials).values() for _ in cell.trials)
    return Counts(
        ok=ended.count("ok"),
        void=ended.count("void"),
        failed=ended.count("failed"),
        left_out=ended.count("ok") - used,
    )


def _context(
    data: ExperimentData,
    comparison: Comparison,
    counts: Counts,
    noise: list[NoiseFloor],
    gains: tuple[GainLine, ...],
) -> Iterable[Fact]:
    spec, record = data.experiment.spec_json, data.experiment
    if COMPARED in record.facts:
        for run in record.facts[COMPARED]:
            when = f"{datetime.fromisoformat(run['created_at']):%Y-%m-%d %H:%M} UTC"
            told = f"{run['id']} ({run['state']}), {when}, perfrunner {run['tool_version']}"
            yield Fact("experiment", told)
    else:
        when = f"{record.created_at:%Y-%m-%d %H:%M} UTC"
        yield Fact("experiment", f"{record.id} ({record.state})")
        if spec.get("description"):
            yield Fact("what", str(spec["description"]))
        yield Fact("measured", f"{when}, perfrunner {record.tool_version}")
    hosts = _hosts(record.facts)
    if hosts:
        yield Fact("hosts", hosts)
    yield from variant_facts(data, comparison.variants)
    for name, workload in (spec.get("workloads") or {}).items():
        if any(cell.workload == name for cell in comparison.cells):
            yield Fact(f"workload {name}", _settings(workload))
    added = "".join(
        f" (from {e['from']} to {e['to']} on {str(e['at'])[:10]})"
        for e in record.facts.get("extended", ())
    )
    seed = f", seed {record.seed}" if comparison.paired else ""
    blocks = f"{comparison.blocks} blocks{added}{seed}"
    spoiled = f", {counts.void} void, {counts.failed} failed" if comparison.voids else ", none void"
    yield Fact("trials", f"{counts.ok} ok{spoiled}; {blocks}")
    yield Fact(
        "correction", f"Benjamini-Hochberg over {comparison.tests} tests, the primary ones apart"
    )
    if "metadata_visible" in _preconditions(data):
        shares = "; ".join(str(found) for found in metadata_shares(data.trials))
        yield Fact("huge metadata pages", shares or "not measured")
    if costs := sampling_costs(data):
        yield Fact("sampling costs", _sampling(costs))
    if gains:
        yield Fact("known gains", states_text(gains))
    yield Fact(NOISE_FLOOR, noise_text(noise, comparison))


def _sampling(costs: list[SamplingCost]) -> str:
    """What shows, in full; where nothing does, how little could have shown: no figure that is only noise."""
    if visible := [cost for cost in costs if cost.visible]:
        return "; ".join(_sampling_cost(cost) for cost in visible)
    seen = [cost for cost in costs if cost.metric == "ops_per_s"]
    widths = ", ".join(f"0 ± {significant(100 * cost.floor, 2)} % {cost.cell}" for cost in seen)
    return "nothing that shows" + (f": ops_per_s without samplers {widths}" if widths else "")


def _sampling_cost(cost: SamplingCost) -> str:
    low, high = (percent_change(end) for end in cost.interval)
    return (
        f"{cost.cell} {cost.metric} {percent_change(cost.ratio)} [{low}, {high}] without samplers"
    )


def _hosts(facts: Mapping[str, Any]) -> str:
    """The most telling facts of each host, in a line."""
    hosts = facts.get("hosts")
    if not isinstance(hosts, dict):
        return ""
    return "; ".join(_host(name, host) for name, host in hosts.items() if isinstance(host, dict))


def _host(name: str, facts: Mapping[str, Any]) -> str:
    shown = [str(facts["cpu_model"])] if "cpu_model" in facts else []
    if isinstance(facts.get("cpus"), int):
        shown.append(f"{facts['cpus']} CPUs")
    if isinstance(facts.get("memory_bytes"), int):
        shown.append(f"{facts['memory_bytes'] / 1e9:.1f} GB")
    for key, label in (("kernel", "Linux"), ("thp_enabled", "THP"), ("governor", "governor")):
        if key in facts:
            shown.append(f"{label} {facts[key]}")
    return f"{name} ({', '.join(shown)})" if shown else name


def _settings(workload: Any) -> str:
    if not isinstance(workload, dict):
        return str(workload)
    return ", ".join(f"{k} {_plain(v)}" for k, v in workload.items() if v is not None)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "-".join(_plain(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _moved(comparison: Comparison) -> Iterable[Moved]:
    for cell in comparison.cells:
        for variant in comparison.variants[1:]:
            rows = moved_with(comparison, cell, variant)
            if rows:
                shown = tuple(rows[:MOST_MOVED])
                yield Moved(cell, variant, shown, len(rows) - len(shown))


def _state_warnings(data: ExperimentData) -> Iterable[str]:
    record = data.experiment
    yield from failed_checks(record.facts)
    yield from failed_profiles(record.facts.get(PROFILES) or ())
    if record.state == "running":
        yield "the experiment is still running (or was killed): these are its trials so far"
    elif record.state == "interrupted":
        yield "the experiment was interrupted: perfrunner run --resume continues it"
    elif record.state == "failed":
        yield "the experiment failed: what was measured before is below"
    builds = {b.variant: b.build_id for b in data.builds}
    for variant in dict.fromkeys(t.variant for t in data.trials):
        ids = {t.build_id for t in data.trials if t.variant == variant}
        if len(ids) > 1:
            yield f"{variant} was measured on more than one build ({', '.join(sorted(ids))})"
        elif builds and variant in builds and builds[variant] not in ids:
            yield f"{variant} was measured on build {ids.pop()}, not on the recorded {builds[variant]}"


def _not_proved(data: ExperimentData) -> Iterable[str]:
    """Of each arm that was let off a part of its proof, exactly which."""
    for build in data.builds:
        if missing := unproved(build.settings):
            told = "; ".join(f"{name} ({why})" for name, why in missing.items())
            yield f"{build.variant}: not proved, as its proof.skip allows: {told}"


def _circumstances(data: ExperimentData) -> Iterable[str]:
    """Preconditions that do not hold (name -> whether it does, None: not known); host changes."""
    checked = data.experiment.facts.get("preconditions")
    found = dict(checked) if isinstance(checked, dict) else {}
    for name in _preconditions(data, found):
        if name in MEASURED:
            yield from _too_little_metadata(data)
        elif found.get(name) is None:
            yield f"precondition {name} could not be checked ({_meaning(name)})"
        elif not found[name]:
            yield f"precondition {name} does not hold: {_meaning(name)} is not so"
    tools = data.experiment.facts.get("tools_builds") or ()
    if len(set(tools)) > 1:
        yield f"the load tools were built anew while the experiment was interrupted: {', '.join(tools)}"
    changes = data.experiment.facts.get("changes") or ()
    for change in dict.fromkeys(str(change) for change in changes):
        yield f"the hosts changed between two runs of this experiment: {change}"


def _preconditions(data: ExperimentData, found: Mapping[str, Any] | None = None) -> list[str]:
    named = data.experiment.spec_json.get("preconditions") or ()
    return list(dict.fromkeys([*named, *(found or ())]))


def _too_little_metadata(data: ExperimentData) -> Iterable[str]:
    for found in metadata_shares(data.trials):
        if found.share is None:
            yield f"precondition metadata_visible could not be checked in {found}"
        elif not found.enough:
            yield (
                "precondition metadata_visible does not hold: huge pages of allocator metadata are too few to show"
                f" in {found}; it takes {100 * ENOUGH:g} %"
            )


def _meaning(name: str) -> str:
    return PRECONDITIONS.get(name, "unknown to this perfrunner")


def _reproduce(data: ExperimentData) -> str:
    """The command that measures it again; of two runs, the one that compares them.

    `facts.command` is the one that was given, if it is known.
    """
    record = data.experiment
    given = record.facts.get("command")
    if COMPARED in record.facts:
        return shlex.join(map(str, record.facts["command"]))
    if isinstance(given, (list, tuple)) and given:
        words = [str(word) for word in given if word != "--resume"]
    else:
        words = ["perfrunner", "run", record.spec_path or f"{record.name}.yaml"]
    if not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words += ["--seed", str(record.seed)]
    extended = record.facts.get("extended")
    blocks = extended[-1]["to"] if extended else record.spec_json.get("blocks")
    flag = "--blocks" if words[1:2] == ["ab"] else "--repeats"
    if extended:
        words = _without(words, flag)
    if blocks and not any(word.startswith(flag) for word in words):
        words += [flag, str(blocks)]
    words += pinned_sources(data)
    return OPEN_HOME.sub(r"~/\1", shlex.join(words)) + trees_note(data)


def _without(words: list[str], flag: str) -> list[str]:
    """Without an option and its value."""
    if flag not in words:
        return words
    place = words.index(flag)
    return [*words[:place], *words[place + 2 :]]
