"""Write experiments to a small file for a repository, and read it: gzipped JSON, reproducible byte for byte.

The file holds the input of a report: the spec as it ran, seed, host facts, builds with their provenance, and
the values of every trial to nine significant digits. Raw samples, logs and paths of the machine are left out.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from perfrunner.errors import StoreError
from perfrunner.results import legacy
from perfrunner.results.records import BuildRecord, ExperimentData, ExperimentRecord, TrialRecord
from perfrunner.sources.model import SOURCES_FACT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = 2
_READABLE = (1, SCHEMA)  # 1: with the names used before schema version 4 of the store
LARGEST = 512 << 20  # bytes of JSON, a hundred times a year of nights
DIGITS = 9
_PATHS = ("directory", "path")  # keys of sources and builds whose values are paths of this machine
_TRIAL_FACTS_LEFT_OUT = ("environment_padding", "port")


def archive_bytes(experiments: Sequence[ExperimentData]) -> bytes:
    """Return the content of an archive file."""
    document = {"schema": SCHEMA, "experiments": [_record(data) for data in experiments]}
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def read_archive(path: Path) -> tuple[ExperimentData, ...]:
    """Read the experiments of a file that `archive_bytes` made. Raises StoreError for any other file."""
    try:
        with gzip.open(path) as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise StoreError(
                f"{path}: larger than {LARGEST >> 20} MiB: not an archive of perfrunner"
            )
        document = json.loads(text)
        if document["schema"] not in _READABLE:
            raise StoreError(f"{path}: schema {document['schema']}, this perfrunner reads {SCHEMA}")
        return tuple(_data(entry) for entry in document["experiments"])
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, EOFError, RecursionError, zlib.error) as error:
        raise StoreError(f"{path}: not an archive of perfrunner ({error!r})") from error


def _record(data: ExperimentData) -> dict[str, Any]:
    experiment = asdict(data.experiment)
    experiment["created_at"] = data.experiment.created_at.isoformat()
    experiment["spec_path"] = PurePath(data.experiment.spec_path).name
    facts = {k: v for k, v in data.experiment.facts.items() if k != "command"}
    if SOURCES_FACT in facts:
        facts[SOURCES_FACT] = _blank_paths(facts[SOURCES_FACT])
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
    """Empty the paths and keep their keys, because readers of the record require them."""
    if isinstance(value, dict):
        return {k: "" if k in _PATHS else _blank_paths(v) for k, v in value.items()}
    return value


def _data(entry: Mapping[str, Any]) -> ExperimentData:
    experiment = dict(entry["experiment"])
    experiment["created_at"] = datetime.fromisoformat(experiment["created_at"])
    experiment["spec_json"] = legacy.current_spec(experiment["spec_json"])
    experiment["facts"] = legacy.current_facts(experiment["facts"])
    trials = []
    for record in map(legacy.current_trial, entry["trials"]):
        times = {k: datetime.fromisoformat(record[k]) for k in ("started_at", "finished_at")}
        trials.append(TrialRecord(**{**record, **times}))
    return ExperimentData(
        experiment=ExperimentRecord(**experiment),
        builds=tuple(
            BuildRecord(**{**build, "settings": legacy.current_settings(build["settings"])})
            for build in entry["builds"]
        ),
        trials=tuple(trials),
    )
