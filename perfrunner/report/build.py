"""Build the model of a report from a stored experiment."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.compare import compare
from perfrunner.analysis.environment import hosts_of
from perfrunner.analysis.model import Comparison
from perfrunner.analysis.noise import SamplingCost, failed_checks, sampling_costs
from perfrunner.analysis.other_metrics import ENOUGH, metadata_shares, moved_with
from perfrunner.analysis.published import published_lines
from perfrunner.domain import MEASURED_PRECONDITIONS, PRECONDITIONS, unchecked
from perfrunner.report.environment import (
    differing_builds,
    limited,
    pinned_sources,
    same_builds,
    source_facts,
    trees_note,
    trial_notes,
    variant_facts,
)
from perfrunner.report.expected_gains import (
    ExpectedGainLine,
    judged_expected_gains,
    lost_warnings,
    states_text,
)
from perfrunner.report.explain import profiled_pairs
from perfrunner.report.method import (
    NOISE_FLOOR,
    aa_alarms,
    known_floors,
    method_facts,
    methods,
    noise_text,
)
from perfrunner.report.model import HOSTS, LOAD, Counts, Fact, Moved, Report
from perfrunner.report.numbers import percent_change, significant
from perfrunner.report.sentences import preface, sentences
from perfrunner.report.two_runs import COMPARED
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.analysis.noise import NoiseFloor
    from perfrunner.results import ExperimentData
    from perfrunner.spec.expectations import PublishedValues

MOST_MOVED = 6
OPEN_HOME = re.compile(r"'~/([\w@%+=:,./-]*)'")  # a shell does not expand a quoted ~


def build_report(
    data: ExperimentData, baseline: str | None = None, published: PublishedValues | None = None
) -> Report:
    """Analyse an experiment; `baseline` and `published` replace those of the recorded spec."""
    return report_of(data, compare(data, baseline), published)


def report_of(
    data: ExperimentData, comparison: Comparison, published: PublishedValues | None = None
) -> Report:
    """Return the report of an existing comparison."""
    counts = _counts(data)
    published = published or _recorded_published(data)
    noise = known_floors(data, comparison)
    measured = methods(data) if comparison.paired else ()
    expected_gains = _expected_gains(data, comparison)
    # Shares of two machines would mislead, so two experiments have no profiles.
    profiled, left_out = profiled_pairs(data, comparison) if comparison.paired else ((), ())
    return Report(
        experiment=data.experiment,
        comparison=comparison,
        preface=preface(comparison),
        sentences=sentences(comparison),
        context=tuple(_context(data, comparison, counts, noise, expected_gains)),
        counts=counts,
        moved=tuple(_moved(comparison)),
        notes=(*_row_notes(comparison, primary=True), *trial_notes(data.trials), *left_out),
        minor_notes=tuple(_row_notes(comparison, primary=False)),
        warnings=(
            *_state_warnings(data),
            *_not_checked(data),
            *lost_warnings(expected_gains),
            *same_builds(data),
            *aa_alarms(data, comparison),
            *comparison.warnings,
            *_environment(data),
        ),
        noise=tuple(noise),
        differing=tuple(limited(differing_builds(data.builds))),
        builds=data.builds,
        reproduce=_reproduce(data),
        methods=measured,
        method=method_facts(measured, data, comparison),
        published=published,
        published_lines=() if published is None else published_lines(published, comparison),
        expected_gains=expected_gains,
        sources=source_facts(data),
        profiled=profiled,
    )


def _expected_gains(data: ExperimentData, comparison: Comparison) -> tuple[ExpectedGainLine, ...]:
    """Return the expected gains of the recorded spec; none for two experiments."""
    recorded = data.experiment.spec_json.get("expected_gains")
    if not recorded or not comparison.paired:
        return ()
    from perfrunner.spec.expectations import ExpectedGain

    return judged_expected_gains(data, comparison, map(ExpectedGain.model_validate, recorded))


def _recorded_published(data: ExperimentData) -> PublishedValues | None:
    recorded = data.experiment.spec_json.get("published")
    if not recorded:
        return None
    from perfrunner.spec.expectations import PublishedValues

    return PublishedValues.model_validate(recorded)


def _row_notes(comparison: Comparison, *, primary: bool) -> Iterable[str]:
    for row in comparison.rows:
        if row.primary == primary:
            for note in row.notes:
                yield f"{row.case}, {row.variant}: {row.metric.id}: {note}"


def _counts(data: ExperimentData) -> Counts:
    ended = [t.status for t in data.trials]
    used = sum(1 for case in clean_blocks(data.trials).values() for _ in case.trials)
    return Counts(
        ok=ended.count("ok"),
        discarded=ended.count("discarded"),
        failed=ended.count("failed"),
        left_out=ended.count("ok") - used,
    )


def _context(
    data: ExperimentData,
    comparison: Comparison,
    counts: Counts,
    noise: list[NoiseFloor],
    expected_gains: tuple[ExpectedGainLine, ...],
) -> Iterable[Fact]:
    spec, record = data.experiment.spec_json, data.experiment
    if COMPARED in record.facts:
        for run in record.facts[COMPARED]:
            when = f"{datetime.fromisoformat(run['created_at']):%Y-%m-%d %H:%M} UTC"
            text = f"{run['id']} ({run['state']}), {when}, perfrunner {run['tool_version']}"
            yield Fact("experiment", text)
    else:
        when = f"{record.created_at:%Y-%m-%d %H:%M} UTC"
        yield Fact("experiment", f"{record.id} ({record.state})")
        if spec.get("description"):
            yield Fact("description", str(spec["description"]))
        yield Fact("measured", f"{when}, perfrunner {record.tool_version}")
    hosts = _hosts(record.facts)
    if hosts:
        yield Fact(HOSTS, hosts)
    if load := _load(record.facts):
        yield Fact(LOAD, load)
    yield from variant_facts(data, comparison.variants)
    for name, workload in (spec.get("workloads") or {}).items():
        if any(case.workload == name for case in comparison.cases):
            yield Fact(f"workload {name}", _settings(workload))
    added = "".join(
        f" (from {e['from']} to {e['to']} on {str(e['at'])[:10]})" for e in record.extensions
    )
    seed = f", seed {record.seed}" if comparison.paired else ""
    blocks = f"{count_of(comparison.blocks, 'block')}{added}{seed}"
    spoiled = (
        f", {counts.discarded} discarded, {counts.failed} failed"
        if comparison.discarded
        else ", none discarded"
    )
    yield Fact("trials", f"{counts.ok} ok{spoiled}; {blocks}")
    judged = any(row.companion and row.effect is not None for row in comparison.rows)
    apart = "primary metrics and total CPU each" if judged else "primary metrics"
    yield Fact(
        "correction",
        f"Benjamini-Hochberg over {count_of(comparison.tests, 'test')}, {apart} separately",
    )
    if "metadata_visible" in _preconditions(data):
        shares = "; ".join(map(str, metadata_shares(data.trials)))
        yield Fact("huge metadata pages", shares or "not measured")
    if costs := sampling_costs(data):
        yield Fact("sampling costs", _sampling(costs))
    if expected_gains:
        yield Fact("expected gains", states_text(expected_gains))
    yield Fact(NOISE_FLOOR, noise_text(noise, comparison))


def _sampling(costs: list[SamplingCost]) -> str:
    """Return the visible costs in full; if none is visible, the smallest cost that would have been."""
    if visible := [cost for cost in costs if cost.visible]:
        return "; ".join(_sampling_cost(cost) for cost in visible)
    seen = [cost for cost in costs if cost.metric == "ops_per_s"]
    widths = ", ".join(f"0 ± {significant(100 * cost.floor, 2)} % {cost.case}" for cost in seen)
    return "none visible" + (f": ops_per_s without samplers {widths}" if widths else "")


def _sampling_cost(cost: SamplingCost) -> str:
    low, high = (percent_change(end) for end in cost.interval)
    return (
        f"{cost.case} {cost.metric} {percent_change(cost.ratio)} [{low}, {high}] without samplers"
    )


def _hosts(facts: Mapping[str, Any]) -> str:
    """Return the main facts of each host in a line."""
    hosts = facts.get("hosts")
    if not isinstance(hosts, dict):
        return ""
    return "; ".join(_host(name, host) for name, host in hosts.items() if isinstance(host, dict))


def _load(facts: Mapping[str, Any]) -> str:
    """Return the load average of each host before the run: an effect may be another one next to other programs."""
    loads = {
        name: host["load_average"]
        for name, host in hosts_of(facts).items()
        if isinstance(host.get("load_average"), float)
    }
    return ", ".join(f"{name} {load:g}" for name, load in loads.items())


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
    for case in comparison.cases:
        for variant in comparison.variants[1:]:
            rows = moved_with(comparison, case, variant)
            if rows:
                shown = tuple(rows[:MOST_MOVED])
                yield Moved(case, variant, shown, len(rows) - len(shown))


def _state_warnings(data: ExperimentData) -> Iterable[str]:
    record = data.experiment
    yield from failed_checks(record.facts)
    if record.state == "running":
        yield "the experiment is still running: the report covers its trials so far"
    elif record.state == "interrupted":
        yield "the experiment was interrupted: continue it with perfrunner run --resume"
    elif record.state == "failed":
        why = f" ({record.why_failed})" if record.why_failed else ""
        yield f"the experiment failed{why}: the report covers the trials before the failure"
    builds = {b.variant: b.build_id for b in data.builds}
    for variant in dict.fromkeys(t.variant for t in data.trials):
        ids = {t.build_id for t in data.trials if t.variant == variant}
        if len(ids) > 1:
            yield f"{variant} was measured on more than one build ({', '.join(sorted(ids))})"
        elif builds and variant in builds and builds[variant] not in ids:
            yield f"{variant} was measured on build {ids.pop()}, not on the recorded {builds[variant]}"


def _not_checked(data: ExperimentData) -> Iterable[str]:
    """Yield the settings of each variant that its settings check skipped."""
    for build in data.builds:
        if missing := unchecked(build.settings):
            skipped = "; ".join(f"{name} ({state})" for name, state in missing.items())
            # A server that is not the engine is checked as far as it answers.
            why = "" if "server.kind" in build.settings else " because of settings_check.skip"
            yield f"{build.variant}: not checked{why}: {skipped}"


def _environment(data: ExperimentData) -> Iterable[str]:
    """Yield preconditions that do not hold or are unknown, and changes of the hosts."""
    checked = data.experiment.facts.get("preconditions")
    holds = dict(checked) if isinstance(checked, dict) else {}
    for name in _preconditions(data, holds):
        if name in MEASURED_PRECONDITIONS:
            yield from _too_little_metadata(data)
        elif holds.get(name) is None:
            yield f"precondition {name} could not be checked ({_meaning(name)})"
        elif not holds[name]:
            yield f"precondition {name} does not hold: it requires that {_meaning(name)}"
    tools = data.experiment.facts.get("tools_builds") or ()
    if len(set(tools)) > 1:
        yield f"the load tools were rebuilt while the experiment was interrupted: {', '.join(tools)}"
    changes = data.experiment.facts.get("changes") or ()
    for change in dict.fromkeys(str(change) for change in changes):
        yield f"the hosts changed while the experiment was interrupted: {change}"


def _preconditions(data: ExperimentData, checked: Mapping[str, Any] | None = None) -> list[str]:
    named = data.experiment.spec_json.get("preconditions") or ()
    return list(dict.fromkeys([*named, *(checked or ())]))


def _too_little_metadata(data: ExperimentData) -> Iterable[str]:
    for case in metadata_shares(data.trials):
        if case.share is None:
            yield f"precondition metadata_visible could not be checked in {case}"
        elif not case.enough:
            yield (
                "precondition metadata_visible does not hold: too few huge pages of allocator metadata"
                f" in {case}; at least {100 * ENOUGH:g} % are needed"
            )


def _meaning(name: str) -> str:
    return PRECONDITIONS.get(name, "unknown to this perfrunner")


def _reproduce(data: ExperimentData) -> str:
    """Return the command that repeats the measurement, or the command that compares two runs.

    `facts.command` is the original command, if recorded.
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
    blocks = record.extended_to or record.spec_json.get("blocks")
    flag = "--blocks" if words[1:2] == ["ab"] else "--repeats"
    if record.extended_to:
        words = _without(words, flag)
    if blocks and not any(word.startswith(flag) for word in words):
        words += [flag, str(blocks)]
    words += pinned_sources(data)
    return OPEN_HOME.sub(r"~/\1", shlex.join(words)) + trees_note(data)


def _without(words: list[str], flag: str) -> list[str]:
    """Return the arguments without an option and its value."""
    if flag not in words:
        return words
    place = words.index(flag)
    return [*words[:place], *words[place + 2 :]]
