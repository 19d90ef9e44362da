"""The trials of an experiment as one flat table: a row a trial and metric."""

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
    ("attempt", "integer", "of the block; a void block is repeated under the next one"),
    ("position", "integer", "place of the trial in its block, from 1"),
    ("ensemble", "integer", "which arms ran side by side, from 1; 0 ran alone"),
    ("workload", "text", "name in the spec"),
    ("bucket", "text", "persistent, ephemeral, or - where the workload has none"),
    ("variant", "text", "name in the spec"),
    ("build_id", "text", "of the program that ran"),
    ("status", "text", "ok, void or failed; a block with one that is not ok counts nowhere"),
    ("reason", "text", "why it is not ok; empty otherwise"),
    ("started_at", "time", "UTC"),
    ("finished_at", "time", "UTC"),
    ("metric", "text", "id; empty where the trial has none (it failed)"),
    ("value", "number", "in the unit"),
    ("unit", "text", "of the metric"),
    ("direction", "text", "higher or lower is better, or none"),
)


def trial_rows(data: ExperimentData) -> Iterator[tuple[Any, ...]]:
    """In the order of TRIAL_COLUMNS. A trial without metrics has one row."""
    for t in data.trials:
        trial = (
            data.experiment.id, t.block, t.attempt, t.position, t.ensemble, t.workload, t.bucket,
            t.variant, t.build_id, t.status, t.reason, t.started_at, t.finished_at,
        )  # fmt: skip
        for name, value in t.metrics.items():
            kind = metric_type(name) if is_metric(name) else None
            yield (*trial, name, value, kind.unit if kind else "", kind.direction if kind else "")
        if not t.metrics:
            yield (*trial, "", None, "", "")


def frame(data: ExperimentData) -> pd.DataFrame:
    """The table as a DataFrame of pandas (`pip install perfrunner[export]`)."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError(
            "a frame needs pandas, which is not installed", "pip install 'perfrunner[export]'"
        ) from None
    return pd.DataFrame(trial_rows(data), columns=[name for name, _, _ in TRIAL_COLUMNS])
