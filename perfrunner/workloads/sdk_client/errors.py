"""Classify the errors of the SDK: expected ones are counted, others end the process."""

from __future__ import annotations

MISSING = "DocumentNotFoundException"
# Errors of a busy or unreachable server: they are counted, and the load continues.
EXPECTED = {
    "AmbiguousTimeoutException": "timeout_ambiguous",
    "UnAmbiguousTimeoutException": "timeout",
    "TemporaryFailException": "temporary_failure",
    "RequestCanceledException": "canceled",
    "DurabilitySyncWriteAmbiguousException": "durability_ambiguous",
    "DurabilitySyncWriteInProgressException": "durability_in_progress",
}
LATE = {"timeout_ambiguous", "timeout"}
# After these errors it is unknown whether the write succeeded.
AMBIGUOUS = {"timeout_ambiguous", "canceled", "durability_ambiguous"}


class LoadError(Exception):
    """An error that ends the process with status 1 and a message."""


def expected_kind(error: Exception) -> str | None:
    """Return the kind of an error that is counted; None for one that ends the load."""
    return EXPECTED.get(type(error).__name__)


def is_late(result: object) -> bool:
    """Return whether a result is a time-out of the SDK."""
    return isinstance(result, Exception) and expected_kind(result) in LATE
