"""The profiles of an experiment: what its facts say of them, and the folded stacks that were kept.

They are taken after the last trial, so they are no trials: a fact of the experiment has one record for each arm of each
profiled cell (run/trial/profiles.py writes it), the stacks lie with the arm's raw files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.errors import TrialError
from perfrunner.measure.folded import Folded, parse_folded
from perfrunner.results.files import raw_files
from perfrunner.spec.cell import NO_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perfrunner.results.records import ExperimentData

FACT = "profiles"  # of an experiment
PROFILE_FILE = "profile.folded"


@dataclass(frozen=True)
class ArmProfile:
    """One arm's. `reason` says why there is no profile, where its status is not ok.

    `event` is what perf sampled, `cut_short` whether it ended before the load did, `directory` relative to the store's.
    """

    workload: str
    bucket: str
    variant: str
    ensemble: int
    status: str
    reason: str
    directory: str
    event: str = ""
    frequency: int = 0
    samples: int = 0
    cut_short: bool = False

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ArmProfile:
        """One that a newer perfrunner wrote may have more keys."""
        return cls(**{k: v for k, v in record.items() if k in cls.__dataclass_fields__})


def arm_profiles(data: ExperimentData) -> list[ArmProfile]:
    """In the order in which they were taken; empty when the experiment has none."""
    return [ArmProfile.of_record(record) for record in data.experiment.facts.get(FACT) or ()]


def failed_profiles(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each arm of which there is none, and why."""
    for record in records:
        if record["status"] != "ok":
            bucket = record["bucket"]
            cell = f"{record['workload']}{'' if bucket == NO_BUCKET else f' · {bucket}'}"
            yield f"there is no profile of {record['variant']} in {cell}: {record['reason']}"


def read_profile(data: ExperimentData, profile: ArmProfile) -> Folded:
    """Its stacks. TrialError where there is none, or its file is not on this machine."""
    if profile.status != "ok":
        raise TrialError(f"there is no profile of {profile.variant}: {profile.reason}")
    if data.directory is None and not data.contents:
        raise TrialError("its stacks are not with the kept numbers")
    try:
        path = raw_files(data, profile.directory)[PROFILE_FILE]
        return parse_folded(path.read_text(encoding="utf-8"), PROFILE_FILE)
    except KeyError:
        raise TrialError(f"{profile.directory} has no {PROFILE_FILE}") from None
    except OSError as error:
        raise TrialError(f"{profile.directory}/{PROFILE_FILE}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrialError(f"{profile.directory}/{PROFILE_FILE}: {error}") from error
