"""Combine two runs into one record, for a report that compares a variant of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfrunner.sources.model import SOURCES_FACT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results import ExperimentData

COMPARED = "compared"  # fact: id, state, date and perfrunner version of each run

Variant = tuple["ExperimentData", str]  # a run and one of its variants


def of_two_runs(first: Variant, second: Variant, command: Sequence[str]) -> ExperimentData:
    """Return one record with a variant of each run, named RUN/VARIANT, and separate blocks.

    `command` repeats this report. The result has the id and directory of the second run. Facts about a
    whole run (distances between variants, checks, profiles) do not apply to the pair and are left out.
    """
    variants = (first, second)
    after = max((trial.block for trial in first[0].trials), default=0)
    data = second[0]
    spec_json = {
        **data.experiment.spec_json,
        "baseline": name_of(first),
        "variants": {
            name_of(variant): (variant[0].experiment.spec_json.get("variants") or {}).get(
                variant[1]
            )
            for variant in variants
        },
    }
    facts = {
        COMPARED: [_identity(variant[0]) for variant in variants],
        "command": list(command),
        "hosts": _hosts(first[0], second[0]),
        "preconditions": _preconditions(first[0], second[0]),
        SOURCES_FACT: _sources(variants),
    }
    return replace(
        data,
        trials=tuple(
            replace(trial, variant=name_of(variant), block=trial.block + offset)
            for variant, offset in ((first, 0), (second, after))
            for trial in variant[0].trials
            if trial.variant == variant[1]
        ),
        builds=tuple(
            replace(build, variant=name_of(variant))
            for variant in variants
            for build in variant[0].builds
            if build.variant == variant[1]
        ),
        experiment=replace(data.experiment, state="done", spec_json=spec_json, facts=facts),
    )


def name_of(variant: Variant) -> str:
    return f"{variant[0].experiment.id}/{variant[1]}"


def _identity(data: ExperimentData) -> dict[str, str]:
    record = data.experiment
    return {
        "id": record.id,
        "state": record.state,
        "created_at": record.created_at.isoformat(timespec="seconds"),
        "tool_version": record.tool_version,
    }


def _hosts(first: ExperimentData, second: ExperimentData) -> dict[str, Any]:
    """Return the hosts of both runs; if they differ, named by run."""
    of_first, of_second = (data.experiment.facts.get("hosts") or {} for data in (first, second))
    if of_first == of_second:
        return dict(of_second)
    return {
        f"{data.experiment.id}/{name}": host
        for data, hosts in ((first, of_first), (second, of_second))
        for name, host in hosts.items()
    }


def _preconditions(first: ExperimentData, second: ExperimentData) -> dict[str, bool | None]:
    """Combine preconditions: each must hold in both runs; None if one is unknown."""
    combined: dict[str, bool | None] = {}
    for data in (first, second):
        checked = data.experiment.facts.get("preconditions")
        for name, holds in (checked if isinstance(checked, dict) else {}).items():
            before = combined.get(name, True)
            combined[name] = (
                False if False in (before, holds) else None if None in (before, holds) else True
            )
    return combined


def _sources(variants: Sequence[Variant]) -> dict[str, Any] | None:
    """Return the sources and load tools of both variants; None if one was not recorded (an older store)."""
    sources: dict[str, Any] = {"variants": {}, "tools_of": {}}
    for data, variant in variants:
        recorded = data.experiment.facts.get(SOURCES_FACT)
        if not isinstance(recorded, dict) or variant not in recorded.get("variants", {}):
            return None
        sources["variants"][name_of((data, variant))] = recorded["variants"][variant]
        sources["tools_of"][name_of((data, variant))] = recorded["tools"]
    return sources
