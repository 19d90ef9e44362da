"""`perfrunner run` as another process: how it is started, whose it is, what it said last (nightly, fleet)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

PERFRUNNER = (sys.executable, "-m", "perfrunner")
JOB_VARIABLE = "PERFRUNNER_JOB"  # in its environment: the id of the job that it carries out
STORE_VARIABLE = "PERFRUNNER_STORE"  # what --store says, where it is not on the command line


def with_store(environment: Mapping[str, str], url: str | None) -> dict[str, str]:
    """The environment of a child: a command line is read by everybody on the machine, and a URL may hold a password."""
    return {**environment} if url is None else {**environment, STORE_VARIABLE: url}


def last_words(lines: Sequence[str]) -> str:
    """The line that says what went wrong, without what changes from run to run."""
    said = [line for line in lines if line.startswith(("error:", "failed:"))]
    return (said or [line for line in lines if line.strip()] or ["no word"])[-1]
