"""Read the CPU profiles of an experiment: the trials' facts about them, and the stored folded stacks.

Each trial of a workload with `profile: perf` has a profile. The stacks are among the raw files of the trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfrunner.domain import known_fields
from perfrunner.errors import TrialError
from perfrunner.measure.cpu_profile import Folded, parse_folded
from perfrunner.results.files import raw_files

if TYPE_CHECKING:
    from perfrunner.results.records import ExperimentData, TrialRecord

FACT = "profile"  # name of the fact of a trial
PROFILE_FILE = "profile.folded"


@dataclass(frozen=True)
class TrialProfile:
    """Tell how perf recorded a trial.

    `event` is what perf sampled, `frequency` is in Hz, `cut_short` tells whether recording ended before the load
    did. `counters` are the counted hardware events; empty if the host counts none.
    """

    event: str = ""
    frequency: int = 0
    samples: int = 0
    cut_short: bool = False
    counters: Mapping[str, float] = field(default_factory=dict)


def trial_profile(trial: TrialRecord) -> TrialProfile | None:
    """Return how a trial was recorded; None if its workload does not have `profile: perf`."""
    recorded = trial.facts.get(FACT)
    return TrialProfile(**known_fields(TrialProfile, recorded)) if recorded else None


def read_profile(data: ExperimentData, trial: TrialRecord) -> Folded:
    """Return the stacks of a trial. Raises TrialError if there are none, or if the file is not on this machine."""
    if data.directory is None and not data.contents:
        raise TrialError("the archive does not contain its stacks")
    try:
        path = raw_files(data, trial.raw_dir)[PROFILE_FILE]
        stacks = parse_folded(path.read_text(encoding="utf-8"), PROFILE_FILE)
    except KeyError:
        raise TrialError(f"{trial.raw_dir} has no {PROFILE_FILE}") from None
    except OSError as error:
        raise TrialError(f"{trial.raw_dir}/{PROFILE_FILE}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrialError(f"{trial.raw_dir}/{PROFILE_FILE}: {error}") from error
    if not stacks.samples:
        raise TrialError(f"the profile of {trial.variant} has no samples (lengthen the load)")
    return stacks
