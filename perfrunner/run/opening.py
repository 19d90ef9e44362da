"""Which experiment a run belongs to: a new one, or one of the same spec that goes on.

A resumed experiment must be the same in everything that matters: the spec as it was resolved is compared with the one
that was recorded, so that trials of two different specs never mix.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import perfrunner
from perfrunner.errors import UsageError
from perfrunner.results import AlreadyStoredError, ExperimentRecord, ResultStore, TrialRecord
from perfrunner.run.plan.order import draw_seed
from perfrunner.spec.model import Spec

GRANTED = "granted_after"  # fact: after how many trials the budget of redone cells was granted anew
JOB = "job"  # fact: id of the fleet's job that it is the run of
EXTENDED = "extended"  # fact: blocks that were added: from, to, at


@dataclass(frozen=True)
class Opened:
    """An experiment that trials can be added to."""

    experiment: ExperimentRecord
    directory: Path
    trials: tuple[TrialRecord, ...]  # stored before, in the order they ran
    resumed: bool


def resolved(spec: Spec) -> dict[str, Any]:
    """The spec as plain values, as it is recorded."""
    return spec.model_dump(mode="json")


def differences(recorded: Mapping[str, Any], spec: Spec) -> list[str]:
    """The keys in which a recorded spec differs. The seed does not count: the experiment has its own.

    Nor do the reference and the known gains: they change nothing of a run.
    """
    old, new = _without_places(_of_today(recorded)), _without_places(resolved(spec))
    keys = {*old, *new} - {"seed", "reference", "gains"}
    return [key for key in sorted(keys) if old.get(key) != new.get(key)]


def _of_today(recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the defaults of what an older perfrunner did not know, since it did what they say."""
    try:
        return resolved(Spec.model_validate(recorded))
    except ValidationError:
        return recorded  # of a perfrunner that knew what this one does not


def _without_places(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Where on a host the files lie is nothing of the experiment."""
    cluster = spec.get("cluster") or {}
    hosts = {
        name: {key: value for key, value in host.items() if key != "work_dir"}
        for name, host in (cluster.get("hosts") or {}).items()
    }
    return {**spec, "cluster": {**cluster, "hosts": hosts}}


def begin(
    store: ResultStore,
    out_dir: Path,
    spec: Spec,
    *,
    text: str,
    path: Path,
    seed: int | None,
    facts: Mapping[str, Any] | None = None,
) -> Opened:
    """A new experiment: its record, with what is known of it already (`facts`), and its directory."""
    chosen = next(s for s in (seed, spec.seed, draw_seed()) if s is not None)
    now = datetime.now(timezone.utc)
    record = ExperimentRecord(
        id=f"{spec.name}-{now:%Y%m%d-%H%M%S}",
        name=spec.name,
        spec_json=resolved(spec),
        spec_text=text,
        spec_path=str(path),
        seed=chosen,
        created_at=now,
        tool_version=perfrunner.__version__,
        facts=dict(facts or {}),
    )
    record, directory = _create(store, out_dir, record)
    (directory / "trials").mkdir()
    (directory / "spec.yaml").write_text(text, encoding="utf-8")
    return Opened(record, directory, (), resumed=False)


def resume(
    store: ResultStore,
    out_dir: Path,
    spec: Spec,
    *,
    seed: int | None,
    run: str | None = None,
    extend: int = 0,
) -> Opened:
    """An experiment of this spec to go on with: the newest unfinished one, or `run` (as ResultStore.resolve takes it).

    One that had ended (done with failed cells, or failed) gets a new budget of redone cells. `extend` adds blocks, by
    default to the newest experiment of the spec. UsageError when there is none to go on with, or the spec is another.
    """
    experiment = _to_go_on_with(store, out_dir, spec, run, extend)
    seed = spec.seed if seed is None else seed
    if seed is not None and seed != experiment.seed:
        raise UsageError(
            f"{experiment.id} was begun with seed {experiment.seed}, not {seed}",
            hint="leave out --seed to resume it",
        )
    directory = out_dir / experiment.id
    (directory / "trials").mkdir(parents=True, exist_ok=True)
    trials = store.load(experiment.id).trials
    facts = dict(experiment.facts)
    if experiment.state in ("done", "failed"):
        facts[GRANTED] = [*facts.get(GRANTED, []), len(trials)]
    if extend:
        before = _blocks(experiment, spec, trials)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        added = {"from": before, "to": before + extend, "at": now}
        facts[EXTENDED] = [*facts.get(EXTENDED, []), added]
    experiment = replace(experiment, facts=facts)
    return Opened(experiment, directory, trials, resumed=True)


def planned_blocks(opened: Opened, spec: Spec) -> int:
    """Blocks of the spec, or as many as it was extended to."""
    extended = opened.experiment.facts.get(EXTENDED)
    if extended:
        return int(extended[-1]["to"])
    return max([spec.blocks, *(trial.block for trial in opened.trials)])


def _blocks(experiment: ExperimentRecord, spec: Spec, trials: Sequence[TrialRecord]) -> int:
    """As many as it has, or is yet to have where it has not come to its end."""
    measured = max((trial.block for trial in trials), default=0)
    if experiment.state == "done":
        return measured
    extended = experiment.facts.get(EXTENDED)
    return max(measured, int(extended[-1]["to"]) if extended else spec.blocks)


def _to_go_on_with(
    store: ResultStore, out_dir: Path, spec: Spec, run: str | None, extend: int
) -> ExperimentRecord:
    if run is not None:
        named = store.resolve(run)
        if not store.is_own(named.id):
            raise UsageError(
                f"{named.id} was begun in another results directory than {out_dir}",
                hint="name that one with --out",
            )
        if named.name != spec.name or differences(named.spec_json, spec):
            changed = ", ".join(differences(named.spec_json, spec))
            raise UsageError(
                f"the spec is not the one that {named.id} was begun with: {changed} differs",
                hint=f"leave out the spec: perfrunner run --resume {named.id}",
            )
        return named
    same_name = [experiment for experiment in store.own() if experiment.name == spec.name]
    candidates = [e for e in reversed(same_name) if extend or e.state != "done"]
    if not candidates:
        what = "every experiment is finished" if same_name else "there is no experiment"
        raise UsageError(
            f"nothing to resume: {what} of spec {spec.name} in {out_dir}",
            hint="run it without --resume to begin one; --resume RUN finishes failed cells of a finished one,"
            " --extend N adds blocks to it",
        )
    for experiment in candidates:
        if not differences(experiment.spec_json, spec):
            return experiment
    newest = candidates[0]
    changed = ", ".join(differences(newest.spec_json, spec))
    raise UsageError(
        f"the spec is not the one that {newest.id} was begun with: {changed} differs",
        hint="resume with the same spec and options, or run without --resume to begin anew",
    )


def _create(
    store: ResultStore, out_dir: Path, record: ExperimentRecord
) -> tuple[ExperimentRecord, Path]:
    """In the store, and its directory; with a number behind its id where two begin in one second, here or elsewhere."""
    for number in itertools.count(1):
        named = record if number == 1 else replace(record, id=f"{record.id}-{number}")
        directory = out_dir / named.id
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        try:
            store.create_experiment(named)
        except AlreadyStoredError:
            directory.rmdir()
            continue
        return named, directory
    raise AssertionError  # the numbers have no end
