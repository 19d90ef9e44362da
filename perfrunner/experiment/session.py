"""Create or resume the experiment that a run adds trials to.

A resumed experiment must use the same spec: the resolved spec is compared with the recorded one, so that trials of
two different specs never mix. `RunContext` holds what the other modules of a run share.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import perfrunner
from perfrunner.errors import UsageError
from perfrunner.experiment import events as ev
from perfrunner.experiment.interrupt import SignalGuard
from perfrunner.experiment.outdir import Journal
from perfrunner.experiment.plan import draw_seed
from perfrunner.results import AlreadyStoredError, ExperimentRecord, ResultStore, TrialRecord
from perfrunner.results.records import EXTENDED
from perfrunner.spec.model import Spec

CHANGED = "changed_after"  # fact: numbers of stored trials after which the hosts had changed
GRANTED = "granted_after"  # fact: numbers of stored trials at which the budget of redone cases was renewed
JOB = "job"  # fact: id of the fleet job that this run belongs to


@dataclass(frozen=True)
class Session:
    """An experiment that was created or resumed, to which a run adds trials."""

    experiment: ExperimentRecord
    directory: Path
    trials: tuple[TrialRecord, ...]  # stored by earlier runs, in the order in which they ran
    resumed: bool


@dataclass(frozen=True)
class RunContext:
    """The collaborators that every part of one run shares."""

    spec: Spec
    session: Session
    store: ResultStore
    journal: Journal
    guard: SignalGuard
    listener: ev.Listener


def resolved(spec: Spec) -> dict[str, Any]:
    """Return the spec as plain values, the form in which it is stored."""
    return spec.model_dump(mode="json")


def differences(recorded: Mapping[str, Any], spec: Spec) -> list[str]:
    """Return the top-level keys in which a recorded spec differs from `spec`.

    The seed is ignored because the experiment records its own. Published values and expected gains are ignored
    because they do not influence a run.
    """
    old, new = _without_work_dirs(_with_defaults(recorded)), _without_work_dirs(resolved(spec))
    keys = {*old, *new} - {"seed", "published", "expected_gains"}
    return [key for key in sorted(keys) if old.get(key) != new.get(key)]


def _with_defaults(recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults of keys that an older version did not have; it behaved as these defaults say."""
    try:
        return resolved(Spec.model_validate(recorded))
    except ValidationError:
        return recorded  # written by a newer version, with keys unknown to this one


def _without_work_dirs(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the work directories of the hosts: they are not part of the experiment."""
    cluster = spec.get("cluster") or {}
    hosts = {
        name: {key: value for key, value in host.items() if key != "work_dir"}
        for name, host in (cluster.get("hosts") or {}).items()
    }
    return {**spec, "cluster": {**cluster, "hosts": hosts}}


def end_killed(store: ResultStore) -> None:
    """Mark runs of this results directory that are stored as running as interrupted.

    The caller holds the lock of the directory and is about to begin or resume a run: those were killed.
    """
    for record in store.own():
        if record.state == "running":
            store.set_state(record.id, "interrupted")


def begin(
    store: ResultStore,
    out_dir: Path,
    spec: Spec,
    *,
    text: str,
    path: Path,
    seed: int | None,
    facts: Mapping[str, Any] | None = None,
) -> Session:
    """Create an experiment with its directory, and store its record with the given `facts`."""
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
    return Session(record, directory, (), resumed=False)


def resume(
    store: ResultStore,
    out_dir: Path,
    spec: Spec,
    *,
    seed: int | None,
    run: str | None = None,
    extend: int = 0,
) -> Session:
    """Resume an experiment of this spec: `run` (a name that ResultStore.resolve accepts), or the newest unfinished one.

    An experiment that had already ended gets a new budget of redone cases. `extend` adds blocks, by default to the
    newest experiment of the spec. Raises UsageError when no experiment can be resumed or the spec differs.
    """
    experiment = _find_resumable(store, out_dir, spec, run, extend)
    seed = spec.seed if seed is None else seed
    if seed is not None and seed != experiment.seed:
        raise UsageError(
            f"{experiment.id} uses seed {experiment.seed}, not {seed}",
            hint="omit --seed to resume it",
        )
    directory = out_dir / experiment.id
    (directory / "trials").mkdir(parents=True, exist_ok=True)
    trials = store.load(experiment.id).trials
    session = Session(experiment, directory, trials, resumed=True)
    facts = dict(experiment.facts)
    if experiment.state in ("done", "failed"):
        facts[GRANTED] = [*facts.get(GRANTED, []), len(trials)]
    if extend:
        before = _blocks(session, spec)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        added = {"from": before, "to": before + extend, "at": now}
        facts[EXTENDED] = [*facts.get(EXTENDED, []), added]
    return replace(session, experiment=replace(experiment, facts=facts))


def planned_blocks(session: Session, spec: Spec) -> int:
    """Return the number of blocks to run: that of the spec, or of the latest extension."""
    measured = (trial.block for trial in session.trials)
    return session.experiment.extended_to or max([spec.blocks, *measured])


def _blocks(session: Session, spec: Spec) -> int:
    """Return the number of blocks measured, or planned if the experiment is unfinished."""
    if session.experiment.state == "done":
        return max((trial.block for trial in session.trials), default=0)
    return planned_blocks(session, spec)


def check_measured_here(record: ExperimentRecord) -> None:
    """Raise UsageError for an imported run, because a stranger may have written the commands of its spec."""
    if record.imported:
        raise UsageError(
            f"{record.id} was imported: it can be reported and compared, but not resumed",
            hint="measure it again from a spec that you have read: perfrunner run SPEC",
        )


def _find_resumable(
    store: ResultStore, out_dir: Path, spec: Spec, run: str | None, extend: int
) -> ExperimentRecord:
    if run:
        named = store.resolve(run)
        check_measured_here(named)
        if not store.is_own(named.id):
            raise UsageError(
                f"{named.id} belongs to another results directory than {out_dir}",
                hint="name its directory with --out",
            )
        if named.name != spec.name or differences(named.spec_json, spec):
            changed = ", ".join(differences(named.spec_json, spec))
            raise UsageError(
                f"the spec differs from that of {named.id} in: {changed}",
                hint=f"omit the spec: perfrunner run --resume {named.id}",
            )
        return named
    same_name = [experiment for experiment in store.own() if experiment.name == spec.name]
    candidates = [e for e in reversed(same_name) if extend or e.state != "done"]
    if not candidates:
        verb = "extend" if extend else "resume"
        state = "every experiment is finished" if same_name else "there is no experiment"
        hint = f"start one: omit --{verb}"
        if same_name:
            hint = "use --resume RUN to redo its failed cases, --extend N to add blocks, or neither to start a new one"
        raise UsageError(f"nothing to {verb}: {state} of spec {spec.name} in {out_dir}", hint=hint)
    for experiment in candidates:
        if not differences(experiment.spec_json, spec):
            return experiment
    newest = candidates[0]
    changed = ", ".join(differences(newest.spec_json, spec))
    raise UsageError(
        f"the spec differs from that of {newest.id} in: {changed}",
        hint="resume with the same spec and options, or omit --resume to start a new experiment",
    )


def _create(
    store: ResultStore, out_dir: Path, record: ExperimentRecord
) -> tuple[ExperimentRecord, Path]:
    """Store the record and create its directory.

    The id gets a numeric suffix when another experiment, here or elsewhere, started in the same second.
    """
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
    raise AssertionError  # itertools.count never ends
