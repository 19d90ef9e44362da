"""Two runs as one record, for a report of an arm of each: nothing of one is said of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfrunner.source import FACT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results import ExperimentData

COMPARED = (
    "compared"  # fact: what a person should know of each run: id, state, when, perfrunner's version
)

Arm = tuple["ExperimentData", str]  # a run, and one of its variants


def of_two_runs(first: Arm, second: Arm, command: Sequence[str]) -> ExperimentData:
    """One arm of each, named RUN/VARIANT; no block of one is a block of the other.

    `command` makes this report again. The result has the second run's id and directory. Facts of a whole run
    (distances between its arms, checks, profiles) are of neither pair and left out.
    """
    arms = (first, second)
    after = max((trial.block for trial in first[0].trials), default=0)
    data = second[0]
    spec_json = {
        **data.experiment.spec_json,
        "baseline": name_of(first),
        "variants": {
            name_of(arm): (arm[0].experiment.spec_json.get("variants") or {}).get(arm[1])
            for arm in arms
        },
    }
    facts = {
        COMPARED: [_told(arm[0]) for arm in arms],
        "command": list(command),
        "hosts": _hosts(first[0], second[0]),
        "preconditions": _preconditions(first[0], second[0]),
        FACT: _sources(arms),
    }
    return replace(
        data,
        trials=tuple(
            replace(trial, variant=name_of(arm), block=trial.block + offset)
            for arm, offset in ((first, 0), (second, after))
            for trial in arm[0].trials
            if trial.variant == arm[1]
        ),
        builds=tuple(
            replace(build, variant=name_of(arm))
            for arm in arms
            for build in arm[0].builds
            if build.variant == arm[1]
        ),
        experiment=replace(data.experiment, state="done", spec_json=spec_json, facts=facts),
    )


def name_of(arm: Arm) -> str:
    return f"{arm[0].experiment.id}/{arm[1]}"


def _told(data: ExperimentData) -> dict[str, str]:
    record = data.experiment
    return {
        "id": record.id,
        "state": record.state,
        "created_at": record.created_at.isoformat(timespec="seconds"),
        "tool_version": record.tool_version,
    }


def _hosts(first: ExperimentData, second: ExperimentData) -> dict[str, Any]:
    """Those that both runs were measured on, and by run those that only one was."""
    theirs, ours = (data.experiment.facts.get("hosts") or {} for data in (first, second))
    if theirs == ours:
        return dict(ours)
    return {
        f"{data.experiment.id}/{name}": host
        for data, hosts in ((first, theirs), (second, ours))
        for name, host in hosts.items()
    }


def _preconditions(first: ExperimentData, second: ExperimentData) -> dict[str, bool | None]:
    """A precondition holds where it does in both; None: not known of one."""
    found: dict[str, bool | None] = {}
    for data in (first, second):
        checked = data.experiment.facts.get("preconditions")
        for name, holds in (checked if isinstance(checked, dict) else {}).items():
            before = found.get(name, True)
            found[name] = (
                False if False in (before, holds) else None if None in (before, holds) else True
            )
    return found


def _sources(arms: Sequence[Arm]) -> dict[str, Any] | None:
    """Each arm's own, with its own load tools; None where one was not recorded (an older store)."""
    found: dict[str, Any] = {"arms": {}, "tools_of": {}}
    for data, variant in arms:
        recorded = data.experiment.facts.get(FACT)
        if not isinstance(recorded, dict) or variant not in recorded.get("arms", {}):
            return None
        found["arms"][name_of((data, variant))] = recorded["arms"][variant]
        found["tools_of"][name_of((data, variant))] = recorded["tools"]
    return found
