"""Read back the run-time options of a preloaded allocator, from what it prints when it starts.

mimalloc prints all of its options where MIMALLOC_VERBOSE is set, as it is for the settings check only. jemalloc prints
those that it does not take. tcmalloc prints none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfrunner.domain import not_checked
from perfrunner.spec.allocator import AllocatorSpec

_MIMALLOC_OPTION = re.compile(r"^mimalloc: option '(\w+)': (-?\d+)", re.MULTILINE)
_MIMALLOC_RENAMED = re.compile(
    r'^mimalloc: warning: .*"mimalloc_(\w+)" is deprecated -- use "mimalloc_(\w+)"', re.MULTILINE
)
_JEMALLOC_REFUSED = re.compile(r"^<jemalloc>: Invalid conf (?:pair|value): (.*)$", re.MULTILINE)
_TRUTHS = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}


def asking(allocator: AllocatorSpec) -> dict[str, str]:
    """Return the environment in which the allocator prints its options."""
    return {"MIMALLOC_VERBOSE": "1"} if allocator.preload == "mimalloc" else {}


def read_back(allocator: AllocatorSpec, log: str) -> dict[str, str]:
    """Return the options by `env.` and the variable; those that cannot be read are marked as not checked.

    `log` is what the server printed. Raises ValueError for an option that the allocator does not take.
    """
    asked = allocator.preload_environment
    read = {f"env.{name}": not_checked(value, None) for name, value in asked.items()}
    if allocator.preload == "jemalloc" and (refused := _JEMALLOC_REFUSED.findall(log)):
        raise ValueError(f"jemalloc does not take {', '.join(refused)}")
    printed = dict(_MIMALLOC_OPTION.findall(log))
    if allocator.preload != "mimalloc" or not printed:
        return read
    renamed = dict(_MIMALLOC_RENAMED.findall(log))
    for option, value in allocator.options.items():
        reported = printed.get(renamed.get(option, option))
        if reported is None:
            raise ValueError(f"this mimalloc has no option {option}; it has {', '.join(printed)}")
        if not _is(value, reported):
            raise ValueError(f"mimalloc has {option} {reported}, not {value}")
        read[f"env.MIMALLOC_{option.upper()}"] = reported
    return read


def _is(asked: str, printed: str) -> bool:
    """Compare values; a size with a unit is printed without one, and is taken as it is."""
    plain: Mapping[str, str] = _TRUTHS
    text = plain.get(asked.lower(), asked)
    return text == printed or not re.fullmatch(r"-?\d+|[a-z]+", text.lower())
