"""Run git so that its output does not depend on the user's settings, and without the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfrunner.errors import UsageError

TIMEOUT_S = 300.0
# Override the settings of a user's configuration that change git's output, or end it (a file that is missing). A
# monitor of the file system that has stopped reports no changes.
_PLAIN = (
    "-c", "color.ui=false", "-c", "log.showSignature=false", "-c", "i18n.logOutputEncoding=UTF-8",
    "-c", "diff.orderFile=/dev/null", "-c", "core.abbrev=auto", "-c", "core.fsmonitor=false",
)  # fmt: skip
# git works on local data only: it never asks for a password and never fetches. git before 2.45 has no
# GIT_NO_LAZY_FETCH; without an allowed protocol its fetch ends at once.
_OFFLINE = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
}  # fmt: skip
_KEPT_SETTING = re.compile(r"GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+|GLOBAL|SYSTEM|NOSYSTEM)")


class GitError(Exception):
    """Raised when git fails; the text is git's error message."""


class NoGit(UsageError):  # noqa: N818
    """Raised when git cannot be asked: it is not installed, or the repository's own directory is not there."""


def caller_settings() -> dict[str, str]:
    """Return the variables by which the caller configures git."""
    return {k: v for k, v in os.environ.items() if _KEPT_SETTING.fullmatch(k)}


def run_git(
    directory: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    allowed: tuple[int, ...] = (0,),
    refused: re.Pattern[str] | None = None,
) -> str:
    """Run git in a directory and return its output.

    GIT_* variables of the caller (set by a hook) are removed, except for its configuration (set by a CI system). The
    locale is fixed. Raises GitError, also for a warning that matches `refused`, or NoGit if git is not installed.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | caller_settings()
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *_PLAIN, *arguments],
            env={
                **clean,
                **_OFFLINE,
                "LC_ALL": "C.UTF-8",
                "LANGUAGE": "",  # decides about messages before LC_ALL does
                "GIT_OPTIONAL_LOCKS": "0",
                **(env or {}),
            },
            input=stdin,
            capture_output=True,
            encoding=sys.getfilesystemencoding(),  # names come back as arguments
            errors="surrogateescape",
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise NoGit(
            "git is not installed, and perfrunner needs it to identify sources",
            "apt-get install git",
        ) from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {_command(arguments)} took more than {TIMEOUT_S:g} s") from None
    if done.returncode not in allowed or (refused and refused.search(done.stderr)):
        raise GitError(
            done.stderr.strip() or f"git {_command(arguments)}: status {done.returncode}"
        )
    return done.stdout


def _command(arguments: Sequence[str]) -> str:
    """Return the git command among the arguments, after git's own options."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "-c":
            next(remaining, None)
        elif not argument.startswith("-"):
            return argument
    return ""
