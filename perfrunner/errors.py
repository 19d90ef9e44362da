"""Every error that a person sees, and the exit code that each one ends the command with.

Exit codes: 0 done, 1 a verdict that `--fail-on` names, 2 usage or spec error, 3 the run failed, 75 a database is away
for now, 130 interrupted. Anything that is not a PerfrunnerError is a defect of the tool: its traceback is shown, and
the code is 3.
"""

from __future__ import annotations

import re
from typing import ClassVar

EXIT_OK = 0
EXIT_VERDICT = 1
EXIT_USAGE = 2
EXIT_FAILED = 3
EXIT_AWAY = 75  # EX_TEMPFAIL of sysexits.h: the same may do later
EXIT_INTERRUPTED = 130

# In the message of every error that another run is the cause of: who reads it may try again later.
IN_USE = "is in use by"
# C0 but for tab and newline, DEL, C1.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PerfrunnerError(Exception):
    """An error with a message for a person and, where there is one, a remedy (`hint`)."""

    exit_code: ClassVar[int] = EXIT_FAILED

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = harmless(message)
        self.hint = None if hint is None else harmless(hint)
        super().__init__(self.message)


def harmless(text: str) -> str:
    """Without what commands a terminal: a message may hold what a host or a program said."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class UsageError(PerfrunnerError):
    """The command line asks for something that cannot be."""

    exit_code = EXIT_USAGE


class SpecError(PerfrunnerError):
    """A spec, a cluster file or an override is wrong; the message lists every problem, one a line."""

    exit_code = EXIT_USAGE

    def __init__(
        self, message: str, hint: str | None = None, problems: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.problems = (message,) if problems is None else problems


class BuildError(PerfrunnerError):
    """A variant could not be built, or a tool that the build needs is missing.

    `log`: the file with all that the failed command said, which the message names.
    """

    def __init__(self, message: str, hint: str | None = None, log: str | None = None) -> None:
        super().__init__(message, hint)
        self.log = log


class HostError(PerfrunnerError):
    """A host cannot be reached, is in use, or refuses what a run needs."""


class TrialError(PerfrunnerError):
    """A trial could not be carried out (crash, time-out, a load tool that failed)."""


class ProofError(PerfrunnerError):
    """A variant's setting does not read back from the running engine."""


class StoreError(PerfrunnerError):
    """The results store cannot be read or written."""
