"""Store and read the results of experiments; each trial is one transaction."""

from __future__ import annotations

from perfrunner.domain import TrialStatus
from perfrunner.results.records import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ExperimentState,
    ExperimentSummary,
    TrialRecord,
)
from perfrunner.results.store import AlreadyStoredError, ResultStore, open_store

open = ResultStore.open  # noqa: A001  # read as perfrunner.results.open(...)

__all__ = [
    "AlreadyStoredError",
    "BuildRecord",
    "ExperimentData",
    "ExperimentRecord",
    "ExperimentState",
    "ExperimentSummary",
    "ResultStore",
    "TrialRecord",
    "TrialStatus",
    "open",
    "open_store",
]
