"""What an application has to expect of the SDK's errors, and why a process ends."""

from __future__ import annotations

MISSING = "DocumentNotFoundException"
# What an application has to expect of a server that is busy or away: counted, and the load goes on.
EXPECTED = {
    "AmbiguousTimeoutException": "timeout_ambiguous",
    "UnAmbiguousTimeoutException": "timeout",
    "TemporaryFailException": "temporary_failure",
    "RequestCanceledException": "canceled",
    "DurabilitySyncWriteAmbiguousException": "durability_ambiguous",
    "DurabilitySyncWriteInProgressException": "durability_in_progress",
}
LATE = {"timeout_ambiguous", "timeout"}
# After these nobody knows whether the write was made.
AMBIGUOUS = {"timeout_ambiguous", "canceled", "durability_ambiguous"}


class LoadError(Exception):
    """Why the process ends with status 1, for people."""


def expected_kind(error: Exception) -> str | None:
    """The kind of an error that is counted; None for one that ends the load."""
    return EXPECTED.get(type(error).__name__)


def is_late(found: object) -> bool:
    """An error of the SDK's own clock."""
    return isinstance(found, Exception) and expected_kind(found) in LATE
