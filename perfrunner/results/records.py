"""Define the records of the store as plain values, convert trials to a flat table, and find a named experiment.

Times are aware datetimes (stored and returned in UTC). Mappings must be JSON. Metric values must be finite
floats in the unit of their metric. `block` and `attempt` count from 1; `position` is the place of the trial
inside its block.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import UsageError
from perfrunner.spec.metrics import is_metric, metric_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd


ExperimentState: TypeAlias = Literal["running", "done", "interrupted", "failed"]
# Fact of an experiment that came from another store: from which archive, and when.
IMPORTED = "imported"
EXTENDED = "extended"  # fact of an experiment: its extensions
FAILURE_FACT = "failure"  # fact of an experiment: why it failed last


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

    @property
    def extensions(self) -> Sequence[Mapping[str, Any]]:
        """The extensions, each with its number of blocks `from` and `to`, and its time `at`."""
        return self.facts.get(EXTENDED) or ()

    @property
    def extended_to(self) -> int | None:
        """The number of blocks after the latest extension; None if there was none."""
        return int(self.extensions[-1]["to"]) if self.extensions else None

    @property
    def why_failed(self) -> str:
        """The reason of the state "failed"; empty in any other state, or if none is recorded."""
        return str(self.facts.get(FAILURE_FACT, "")) if self.state == "failed" else ""


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


TRIAL_COLUMNS: tuple[tuple[str, Literal["text", "integer", "number", "time"], str], ...] = (
    ("experiment", "text", "id of the experiment"),
    ("block", "integer", "counts from 1"),
    ("attempt", "integer", "of the block; a discarded block is repeated under the next one"),
    ("position", "integer", "place of the trial in its block, from 1"),
    ("group", "integer", "group of variants that ran interleaved, from 1; 0 ran alone"),
    ("workload", "text", "name in the spec"),
    ("bucket", "text", "persistent, ephemeral, or - if the workload has no bucket"),
    ("variant", "text", "name in the spec"),
    ("build_id", "text", "of the program that ran"),
    ("status", "text", "ok, discarded or failed; a block counts only if all its trials are ok"),
    ("reason", "text", "why the trial is not ok; empty otherwise"),
    ("started_at", "time", "UTC"),
    ("finished_at", "time", "UTC"),
    ("metric", "text", "id; empty if the trial has none (it failed)"),
    ("value", "number", "in the metric's unit"),
    ("unit", "text", "of the metric"),
    ("direction", "text", "higher or lower is better, or none"),
)


def trial_rows(data: ExperimentData) -> Iterator[tuple[Any, ...]]:
    """Yield the rows with the columns of TRIAL_COLUMNS. A trial without metrics has one row."""
    for t in data.trials:
        trial = (
            data.experiment.id, t.block, t.attempt, t.position, t.group, t.workload, t.bucket,
            t.variant, t.build_id, t.status, t.reason, t.started_at, t.finished_at,
        )  # fmt: skip
        for name, value in t.metrics.items():
            kind = metric_type(name) if is_metric(name) else None
            yield (*trial, name, value, kind.unit if kind else "", kind.direction if kind else "")
        if not t.metrics:
            yield (*trial, "", None, "", "")


def frame(data: ExperimentData) -> pd.DataFrame:
    """Return the table as a pandas DataFrame (`pip install perfrunner[export]`)."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError(
            "a data frame needs pandas, which is not installed", "pip install 'perfrunner[export]'"
        ) from None
    return pd.DataFrame(trial_rows(data), columns=[name for name, _, _ in TRIAL_COLUMNS])


def find_experiment(
    known: Sequence[ExperimentRecord], reference: str | None, place: str
) -> ExperimentRecord:
    """Return the experiment that a user's reference names. Raises UsageError if none or several match.

    A reference is an id, a spec name (its latest run), a day (its latest run; 20261120 or 2026-11-20,
    UTC), the start of exactly one id, or None for the latest experiment.
    """
    if not known:
        raise UsageError(f"no experiment is stored in {place}", "start one: perfrunner run SPEC")
    if reference is None:
        return known[-1]
    for record in known:
        if record.id == reference:
            return record
    named = [record for record in known if record.name == reference]
    if named:
        return named[-1]
    if (day := _day(reference)) and (then := [r for r in known if _day_of(r) == day]):
        names = sorted({record.name for record in then})
        if len(names) == 1:
            return then[-1]
        raise UsageError(
            f"several specs were run on {reference}: {', '.join(names)}",
            f"add the spec's name, as in {names[0]}-{day}",
        )
    starting = [r for r in known if reference and r.id.startswith(reference)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        ids = ", ".join(record.id for record in starting)
        raise UsageError(f"{reference!r} matches several experiments: {ids}")
    names = [record.id for record in known] + sorted({record.name for record in known})
    near = difflib.get_close_matches(reference, names, n=1)
    raise UsageError(
        f"no experiment {reference!r} in {place}",
        f"did you mean {near[0]}?" if near else "`perfrunner list` shows the stored experiments",
    )


def _day(reference: str) -> str | None:
    """Return a day in the form 20261120; None if `reference` is not a day."""
    match = re.fullmatch(r"(\d{4})(-?)(\d{2})\2(\d{2})", reference)
    return None if match is None else match[1] + match[3] + match[4]


def _day_of(record: ExperimentRecord) -> str:
    return f"{record.created_at:%Y%m%d}"
