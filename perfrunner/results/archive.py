"""Experiments as a small file to keep in a repository: gzipped JSON, the same bytes for the same experiments.

Everything that a report is made of: the spec as it ran, seed, host facts, builds with their provenance, and every
trial's figures, to nine significant digits. Raw samples and logs stay in the store; so do paths of the machine.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from perfrunner.errors import StoreError
from perfrunner.results.records import BuildRecord, ExperimentData, ExperimentRecord, TrialRecord
from perfrunner.source.model import FACT as SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = 1
DIGITS = 9
_PATHS = ("directory", "path")  # keys of sources and builds that name this machine's files
_TRIAL_FACTS_LEFT_OUT = ("environment_padding", "port")


def archive_bytes(experiments: Sequence[ExperimentData]) -> bytes:
    """The file's content."""
    document = {"schema": SCHEMA, "experiments": [_record(data) for data in experiments]}
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def read_archive(path: Path) -> tuple[ExperimentData, ...]:
    """The experiments of a file that `archive_bytes` made. StoreError for any other."""
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        if document["schema"] != SCHEMA:
            raise StoreError(f"{path}: schema {document['schema']}, this perfrunner reads {SCHEMA}")
        return tuple(_data(entry) for entry in document["experiments"])
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise StoreError(f"{path}: no experiments of perfrunner ({error!r})") from error


def _record(data: ExperimentData) -> dict[str, Any]:
    experiment = asdict(data.experiment)
    experiment["created_at"] = data.experiment.created_at.isoformat()
    experiment["spec_path"] = PurePath(data.experiment.spec_path).name
    facts = {k: v for k, v in data.experiment.facts.items() if k != "command"}
    if SOURCES in facts:
        facts[SOURCES] = _blank_paths(facts[SOURCES])
    experiment["facts"] = facts
    builds = [
        {**asdict(b), "path": "", "provenance": _without_paths(b.provenance)} for b in data.builds
    ]
    return {"experiment": experiment, "builds": builds, "trials": [_trial(t) for t in data.trials]}


def _trial(trial: TrialRecord) -> dict[str, Any]:
    record = asdict(trial)
    record["started_at"] = trial.started_at.isoformat()
    record["finished_at"] = trial.finished_at.isoformat()
    record["metrics"] = {k: _short(v) for k, v in trial.metrics.items()}
    record["facts"] = {k: v for k, v in trial.facts.items() if k not in _TRIAL_FACTS_LEFT_OUT}
    record["raw_dir"] = ""
    return record


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_paths(v) for k, v in value.items() if k not in _PATHS}
    return value


def _blank_paths(value: Any) -> Any:
    """The keys stay: whoever reads the record asks for them."""
    if isinstance(value, dict):
        return {k: "" if k in _PATHS else _blank_paths(v) for k, v in value.items()}
    return value


def _data(entry: Mapping[str, Any]) -> ExperimentData:
    experiment = dict(entry["experiment"])
    experiment["created_at"] = datetime.fromisoformat(experiment["created_at"])
    trials = []
    for record in entry["trials"]:
        times = {k: datetime.fromisoformat(record[k]) for k in ("started_at", "finished_at")}
        trials.append(TrialRecord(**{**record, **times}))
    return ExperimentData(
        experiment=ExperimentRecord(**experiment),
        builds=tuple(BuildRecord(**build) for build in entry["builds"]),
        trials=tuple(trials),
    )
