"""The results store: what an experiment measured, one transaction a trial."""

from __future__ import annotations

from perfrunner.results.records import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ExperimentState,
    ExperimentSummary,
    TrialRecord,
    TrialStatus,
)
from perfrunner.results.store import STORE_FILE, ResultStore

open = ResultStore.open  # noqa: A001  # read as perfrunner.results.open(...)

__all__ = [
    "STORE_FILE",
    "BuildRecord",
    "ExperimentData",
    "ExperimentRecord",
    "ExperimentState",
    "ExperimentSummary",
    "ResultStore",
    "TrialRecord",
    "TrialStatus",
    "open",
]
