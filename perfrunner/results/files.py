"""Where the raw files of a trial, or of a profile, are for this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError

if TYPE_CHECKING:
    from perfrunner.results.records import ExperimentData


def raw_directory(data: ExperimentData, raw_dir: str) -> Path:
    """The directory that the run left; TrialError where it is not on this machine."""
    path = Path(raw_dir)
    if path.is_absolute():
        return path
    if data.directory is None:
        raise TrialError("the store is a remote database: raw files are not with it")
    return Path(data.directory) / path


def raw_files(data: ExperimentData, raw_dir: str) -> Mapping[str, Path]:
    """By name: of the run's own directory, or as kept by content. TrialError or OSError where there are none."""
    kept = data.contents.get(raw_dir)
    if kept and (data.directory is None or not (Path(data.directory) / raw_dir).is_dir()):
        return {name: Path(path) for name, path in kept.items()}
    directory = raw_directory(data, raw_dir)
    if not directory.is_dir():
        raise TrialError("the directory is gone")
    return {path.name: path for path in sorted(directory.iterdir())}
