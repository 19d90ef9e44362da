"""The errors that users see, and the exit code of each; checks that an optional extra is installed.

Exit codes: 0 done, 1 a verdict that `--fail-on` names, 2 usage or spec error, 3 the run failed, 75 a
database is unavailable, 130 interrupted. Any exception that is not a PerfrunnerError is a defect:
the command prints its traceback and exits with 3.
"""

from __future__ import annotations

import errno
import importlib.util
import re
from collections.abc import Sequence
from typing import ClassVar

EXIT_OK = 0
EXIT_VERDICT = 1
EXIT_USAGE = 2
EXIT_FAILED = 3
EXIT_AWAY = 75  # EX_TEMPFAIL of sysexits.h: the same command may succeed later
EXIT_INTERRUPTED = 130

# Part of the message of every error that another run causes. The fleet looks for it and retries.
IN_USE = "is in use by"
# A full disk, an exceeded quota or a limit of the size of files.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK_BROKEN = frozenset({errno.EROFS, errno.EIO, errno.ESTALE})
# C0 except tab and line ends, DEL, and C1.
_CONTROL = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class PerfrunnerError(Exception):
    """An error with a message for the user and an optional `hint` that says what to do.

    `of_machine`: the machine or the clone lacks what a revision needs; the revision itself may be good.
    """

    exit_code: ClassVar[int] = EXIT_FAILED

    def __init__(self, message: str, hint: str | None = None, *, of_machine: bool = False) -> None:
        self.of_machine = of_machine
        self.message = harmless(message)
        self.hint = None if hint is None else harmless(hint)
        super().__init__(self.message)


def harmless(text: str) -> str:
    """Escape control characters, because a message may quote the output of a host or a program."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def is_full(error: OSError) -> bool:
    """Return whether an error means that a disk, a quota or a file is full."""
    return error.errno in DISK_FULL


class UsageError(PerfrunnerError):
    """The command line is wrong or contradicts the stored data."""

    exit_code = EXIT_USAGE


class SpecError(PerfrunnerError):
    """A spec, a cluster file or an override is wrong; the message has one line for each problem."""

    exit_code = EXIT_USAGE

    def __init__(
        self, message: str, hint: str | None = None, problems: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.problems = (message,) if problems is None else problems


class BuildError(PerfrunnerError):
    """A variant could not be built, or a tool that the build needs is missing.

    `log` is the file with the output of the failed command, which the message names.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        log: str | None = None,
        *,
        of_machine: bool = False,
    ) -> None:
        super().__init__(message, hint, of_machine=of_machine)
        self.log = log


class HostError(PerfrunnerError):
    """A host cannot be reached, is in use, or refuses what a run needs."""


class TrialError(PerfrunnerError):
    """A trial failed, for example by a crash, a time-out or an error of a load tool."""


class SettingsCheckError(PerfrunnerError):
    """A setting of a variant does not read back from the running engine."""


class StoreError(PerfrunnerError):
    """The results store cannot be read or written."""


SSH_PACKAGES = ("fabric", "paramiko")
SDK_PACKAGES = ("couchbase",)
FLEET_PACKAGES = ("dbos",)


def require_ssh() -> None:
    """Raise UsageError if the packages for SSH are not installed."""
    _require(
        SSH_PACKAGES,
        "driving hosts over SSH",
        "pip install 'perfrunner[ssh]'; `cluster: local` needs none",
    )


def require_sdk() -> None:
    """Raise UsageError if the Couchbase SDK is not installed."""
    _require(SDK_PACKAGES, "a workload of type sdk", "pip install 'perfrunner[sdk]'")


def require_fleet() -> None:
    """Raise UsageError if the packages of the fleet queue are not installed."""
    _require(FLEET_PACKAGES, "perfrunner fleet", "pip install 'perfrunner[fleet]'")


def _require(packages: Sequence[str], what: str, remedy: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{what} needs {' and '.join(missing)}: not installed", remedy)
