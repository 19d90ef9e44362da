"""Which experiment a run belongs to: a new one, or the newest unfinished one of the same spec.

A resumed experiment must be the same in everything that matters: the spec as it was resolved is compared with the one
that was recorded, so that trials of two different specs never mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import perfrunner
from perfrunner.errors import UsageError
from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord
from perfrunner.run.plan.order import draw_seed
from perfrunner.spec.model import Spec


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
    """The keys in which a recorded spec differs. The seed does not count: the experiment has its own."""
    new = resolved(spec)
    keys = {*recorded, *new} - {"seed"}
    return [key for key in sorted(keys) if recorded.get(key) != new.get(key)]


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
    taken = {summary.experiment.id for summary in store.list()}
    experiment_id = _free_id(f"{spec.name}-{now:%Y%m%d-%H%M%S}", taken, out_dir)
    record = ExperimentRecord(
        id=experiment_id,
        name=spec.name,
        spec_json=resolved(spec),
        spec_text=text,
        spec_path=str(path),
        seed=chosen,
        created_at=now,
        tool_version=perfrunner.__version__,
        facts=dict(facts or {}),
    )
    directory = out_dir / experiment_id
    (directory / "trials").mkdir(parents=True)
    (directory / "spec.yaml").write_text(text, encoding="utf-8")
    store.create_experiment(record)
    return Opened(record, directory, (), resumed=False)


def resume(store: ResultStore, out_dir: Path, spec: Spec, *, seed: int | None) -> Opened:
    """The newest unfinished experiment of this spec; UsageError when there is none to go on with."""
    same_name = [s.experiment for s in store.list() if s.experiment.name == spec.name]
    unfinished = [e for e in reversed(same_name) if e.state != "done"]
    if not unfinished:
        what = "every experiment is finished" if same_name else "there is no experiment"
        raise UsageError(
            f"nothing to resume: {what} of spec {spec.name} in {out_dir}",
            hint="run it without --resume to begin one",
        )
    for experiment in unfinished:
        if not differences(experiment.spec_json, spec):
            break
    else:
        newest = unfinished[0]
        changed = ", ".join(differences(newest.spec_json, spec))
        raise UsageError(
            f"the spec is not the one that {newest.id} was begun with: {changed} differs",
            hint="resume with the same spec and options, or run without --resume to begin anew",
        )
    seed = spec.seed if seed is None else seed
    if seed is not None and seed != experiment.seed:
        raise UsageError(
            f"{experiment.id} was begun with seed {experiment.seed}, not {seed}",
            hint="leave out --seed to resume it",
        )
    directory = out_dir / experiment.id
    (directory / "trials").mkdir(parents=True, exist_ok=True)
    return Opened(experiment, directory, store.load(experiment.id).trials, resumed=True)


def _free_id(wanted: str, taken: set[str], out_dir: Path) -> str:
    candidate, number = wanted, 1
    while candidate in taken or (out_dir / candidate).exists():
        number += 1
        candidate = f"{wanted}-{number}"
    return candidate
