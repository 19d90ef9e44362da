"""Read the CPU profiles of an experiment: their records among its facts, and the stored folded stacks.

With `profile: perf`, profiles are taken after the last trial, so they are not trials. A fact of the experiment has a
record for each variant of each profiled case (experiment/post_run.py writes it). With `profile: blocks`, each trial
has a profile, described by the trial's fact. The stacks are among the raw files of the variant or trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.domain import Case, known_fields
from perfrunner.errors import TrialError
from perfrunner.measure.cpu_profile import Folded, parse_folded
from perfrunner.results.files import raw_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perfrunner.results.records import ExperimentData, TrialRecord

FACT = "profiles"  # name of the fact of an experiment
TRIAL_FACT = "profile"  # name of the fact of a trial
PROFILE_FILE = "profile.folded"


@dataclass(frozen=True)
class VariantProfile:
    """The profile of one variant. `reason` says why there is none if the status is not ok.

    `event` is what perf sampled, `cut_short` whether it ended before the load did. `directory` is relative to
    the store's.
    """

    workload: str
    bucket: str
    variant: str
    group: int
    status: str
    reason: str
    directory: str
    event: str = ""
    frequency: int = 0
    samples: int = 0
    cut_short: bool = False

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> VariantProfile:
        """Read a record."""
        return cls(**known_fields(cls, record))


def trial_profile(trial: TrialRecord) -> VariantProfile | None:
    """Return the profile of a trial; None if its workload does not have `profile: blocks`."""
    taken = trial.facts.get(TRIAL_FACT)
    if not taken:
        return None
    return VariantProfile.of_record({**taken, **vars(trial), "directory": trial.raw_dir})


def variant_profiles(data: ExperimentData) -> list[VariantProfile]:
    """Return the profiles in the order in which they were taken; empty if the experiment has none."""
    return [VariantProfile.of_record(record) for record in data.experiment.facts.get(FACT) or ()]


def failed_profiles(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each variant without a profile, with the reason."""
    for record in records:
        if record["status"] != "ok":
            case = Case(record["workload"], record["bucket"])
            yield f"there is no profile of {record['variant']} in {case}: {record['reason']}"


def read_profile(data: ExperimentData, profile: VariantProfile) -> Folded:
    """Return the stacks. Raises TrialError if there are none, or if the file is not on this machine."""
    if profile.status != "ok":
        raise TrialError(f"there is no profile of {profile.variant}: {profile.reason}")
    if data.directory is None and not data.contents:
        raise TrialError("the archive does not contain its stacks")
    try:
        path = raw_files(data, profile.directory)[PROFILE_FILE]
        return parse_folded(path.read_text(encoding="utf-8"), PROFILE_FILE)
    except KeyError:
        raise TrialError(f"{profile.directory} has no {PROFILE_FILE}") from None
    except OSError as error:
        raise TrialError(f"{profile.directory}/{PROFILE_FILE}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrialError(f"{profile.directory}/{PROFILE_FILE}: {error}") from error
