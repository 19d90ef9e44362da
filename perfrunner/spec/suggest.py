"""The nearest valid name, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_LISTED, OF_MANY = 16, 6  # names: more are not read


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be; None when nothing is near."""
    names = list(known)
    by_lower = {n.lower().replace("_", "-"): n for n in names}
    wanted = name.lower().replace("_", "-")
    if wanted in by_lower:
        return by_lower[wanted]
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing when no name is near."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def expected_name(what: str, name: str, known: Iterable[str]) -> str:
    """The text of an error about a name that must be one of some: lists them, of many the most alike, and proposes
    the nearest.
    """
    names = list(known)
    listed = f": {', '.join(names)}"
    if len(names) > MOST_LISTED:
        alike = difflib.get_close_matches(name, names, n=OF_MANY, cutoff=0.0)
        listed = f" such as {', '.join(alike)} (of {len(names)})"
    return f"expected {what}{listed}; got {name}{did_you_mean(name, names)}"
