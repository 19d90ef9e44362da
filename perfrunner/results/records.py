"""Define the records of the store as plain values.

Times are aware datetimes (stored and returned in UTC). Mappings must be JSON. Metric values must be finite
floats in the unit of their metric. `block` and `attempt` count from 1; `position` is the place of the trial
inside its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from perfrunner.domain import TrialKey, TrialStatus

ExperimentState: TypeAlias = Literal["running", "done", "interrupted", "failed"]
# Fact of an experiment that came from another store: from which archive, and when.
IMPORTED = "imported"


@dataclass(frozen=True)
class ExperimentRecord:
    """A run of a spec. `spec_json` is the resolved spec, `spec_text` the file as it was written."""

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

    @property
    def imported(self) -> bool:
        """True if the experiment was measured elsewhere; its spec is never run here, because it is not ours."""
        return IMPORTED in self.facts


@dataclass(frozen=True)
class BuildRecord:
    """The build that a variant used. Variants that differ only at run time share a build id.

    `settings` are the values that the settings check read from the running engine.
    """

    variant: str
    build_id: str
    path: str = ""
    cached: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialRecord(TrialKey):
    """The result of one workload on one variant in one block: the unit of replication.

    A discarded block is repeated, with every variant, under the next `attempt`. `raw_dir` is relative to the
    directory of the store.
    """

    build_id: str
    status: TrialStatus
    reason: str
    started_at: datetime
    finished_at: datetime
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    raw_dir: str = ""

    @property
    def seconds(self) -> float:
        """The duration of the trial."""
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True)
class ExperimentSummary:
    """A line of `perfrunner list`: the experiment and the number of its trials by status."""

    experiment: ExperimentRecord
    ok: int
    discarded: int
    failed: int


@dataclass(frozen=True)
class ExperimentData:
    """Everything stored of an experiment; trials in the order in which they were stored.

    `directory` is the results directory that contains the trials' raw files; None if it is not on this
    machine. `contents` maps `raw_dir` and file name to the path of files that are stored by content.
    """

    experiment: ExperimentRecord
    builds: tuple[BuildRecord, ...]
    trials: tuple[TrialRecord, ...]
    directory: str | None = None
    contents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
