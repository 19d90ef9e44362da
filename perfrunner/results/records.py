"""What the store holds, as plain values.

Times are aware datetimes (stored and given back in UTC). Mappings must be JSON; metric values must
be finite floats in the unit of their metric. `block` and `attempt` count from 1; `position` is the
place of the trial inside its block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ExperimentState: TypeAlias = Literal["running", "done", "interrupted", "failed"]
TrialStatus: TypeAlias = Literal["ok", "void", "failed"]


@dataclass(frozen=True)
class ExperimentRecord:
    """One run of a spec. `spec_json` is the spec as it was resolved, `spec_text` the file as it was
    written.
    """

    id: str
    name: str
    spec_json: Mapping[str, Any]
    spec_text: str
    spec_path: str
    seed: int
    created_at: datetime
    tool_version: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: ExperimentState = "running"


@dataclass(frozen=True)
class BuildRecord:
    """The build a variant used. Variants that differ only at run time share a build id.

    `settings` is what the proof step read back from the running engine.
    """

    variant: str
    build_id: str
    path: str = ""
    cached: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialRecord:
    """One workload on one variant in one block: the unit of replication.

    A block that was void is repeated, every variant, under the next `attempt`. `raw_dir` is
    relative to the directory of the store. `ensemble` counts from 1 the groups of a cell whose
    engines were alive side by side (the baseline is in each of them); 0: it ran alone.
    """

    block: int
    attempt: int
    position: int
    workload: str
    bucket: str
    variant: str
    build_id: str
    status: TrialStatus
    reason: str
    started_at: datetime
    finished_at: datetime
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    raw_dir: str = ""
    ensemble: int = 0

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True)
class ExperimentSummary:
    """A line of `perfrunner list`: the experiment and how many of its trials ended how."""

    experiment: ExperimentRecord
    ok: int
    void: int
    failed: int


@dataclass(frozen=True)
class ExperimentData:
    """All that is stored of an experiment; trials in the order in which they were stored.

    `directory` is the results directory, under which the trials' raw files lie; None where it is
    not on this machine. `contents` has the files that are kept by content: path by name, by
    `raw_dir`.
    """

    experiment: ExperimentRecord
    builds: tuple[BuildRecord, ...]
    trials: tuple[TrialRecord, ...]
    directory: str | None = None
    contents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
