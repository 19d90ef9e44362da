"""Find the raw files of a trial or a profile on this machine, and verify them against the recorded digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.results.contents import digest

if TYPE_CHECKING:
    from perfrunner.results.records import ExperimentData


@dataclass(frozen=True)
class Verified:
    """The result of verifying raw files. Files are named by path below the results directory."""

    intact: int = 0
    damaged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()  # directories of trials without stored digests


def is_inside(raw_dir: str) -> bool:
    """Return whether a relative path from the store, which others may write to, stays below its base directory."""
    path = PurePosixPath(raw_dir)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in raw_dir


def raw_directory(data: ExperimentData, raw_dir: str) -> Path:
    """Return the directory that the run wrote. Raises TrialError if it is not on this machine."""
    if not is_inside(raw_dir):
        raise TrialError(f"refusing to read raw files outside the results directory: {raw_dir!r}")
    if data.directory is None:
        raise TrialError("the store is a remote database without raw files")
    return Path(data.directory) / raw_dir


def raw_files(data: ExperimentData, raw_dir: str) -> Mapping[str, Path]:
    """Return the files of a trial or profile by name: from the run's own directory, or as stored by content.

    Raises TrialError or OSError if there are none, or if a content does not match its name.
    """
    contents = data.contents.get(raw_dir)
    if contents and (data.directory is None or not raw_directory(data, raw_dir).is_dir()):
        paths = {name: Path(path) for name, path in contents.items()}
        for name, path in paths.items():
            if digest(path) != path.name:
                raise TrialError(
                    f"{name} is damaged: the content of {path} does not match its name"
                )
        return paths
    directory = raw_directory(data, raw_dir)
    if not directory.is_dir():
        raise TrialError("the directory does not exist")
    return {path.name: path for path in sorted(directory.iterdir())}


def verify_files(data: ExperimentData, recorded: Mapping[str, Mapping[str, str]]) -> Verified:
    """Compare the raw files of an experiment with the recorded digests, by `raw_dir` and name."""
    intact, damaged, missing = 0, [], []
    for raw_dir, digests in recorded.items():
        contents = data.contents.get(raw_dir, {})
        for name, sha256 in digests.items():
            where = f"{raw_dir}/{name}"
            places = [Path(contents[name])] if name in contents else []
            if data.directory is not None:
                places.insert(0, raw_directory(data, raw_dir) / Path(name).name)
            present = [path for path in places if path.is_file()]
            if not present:
                missing.append(where)
            elif digest(present[0]) == sha256:
                intact += 1
            else:
                damaged.append(where)
    unrecorded = {trial.raw_dir for trial in data.trials if trial.raw_dir} - recorded.keys()
    return Verified(intact, tuple(damaged), tuple(missing), tuple(sorted(unrecorded)))
