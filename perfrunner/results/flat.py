"""Convert the trials of an experiment to a flat table with a row per trial and metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from perfrunner.errors import UsageError
from perfrunner.spec.metrics import is_metric, metric_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from perfrunner.results.records import ExperimentData

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
