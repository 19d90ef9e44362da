"""The environment of every program that perfrunner runs on a host: these variables, and those that it is given.

Nothing of the shell or of the SSH login that perfrunner was started from: its LD_PRELOAD, MALLOC_ARENA_MAX or
GLIBC_TUNABLES would change what is measured, and the mere size of an environment moves the stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BASE_ENVIRONMENT: Mapping[str, str] = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def whole_environment(given: Mapping[str, str]) -> dict[str, str]:
    """All that a program sees which is started with `given`; what is given wins."""
    return {**BASE_ENVIRONMENT, **given}


def foreign_variables(environ: str, given: Mapping[str, str]) -> list[str]:
    """Names in the text of /proc/PID/environ that are not as in `whole_environment(given)`, or lack there."""
    seen = dict(entry.partition("=")[::2] for entry in environ.split("\0") if entry)
    expected = whole_environment(given)
    return sorted(
        name for name in {*seen, *expected} if seen.get(name, "\0") != expected.get(name, "\0")
    )


def clean_prefix() -> Sequence[str]:
    """`env -i ...`: what follows it sees the base alone."""
    return ["env", "-i", *(f"{key}={value}" for key, value in BASE_ENVIRONMENT.items())]
