"""Read names that a user gives, and suggest the nearest valid name in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from perfrunner.errors import UsageError

NAME = r"[A-Za-z0-9][A-Za-z0-9._,=+-]{0,99}"  # of a variant
NAME_WANTED = "a name of letters, digits and '.', '_', ',', '=', '+', '-' (at most 100 characters)"
MOST_LISTED, OF_MANY = 16, 6  # all names up to 16; of more, only the 6 most similar


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`; None if none is similar enough."""
    names = list(known)
    by_lower = {n.lower().replace("_", "-"): n for n in names}
    wanted = name.lower().replace("_", "-")
    if wanted in by_lower:
        return by_lower[wanted]
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean X?)`, or an empty string if no known name is similar."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def misspelt(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return a suggestion by name for each unknown name that resembles a known one.

    Any other name goes to the engine or the allocator, which decides: another revision or version may know it.
    """
    names_known = tuple(known)
    return {
        name: f"unknown (did you mean {near}?)"
        for name in names
        if name not in names_known and (near := nearest(name, names_known))
    }


def expected_name(what: str, name: str, known: Iterable[str]) -> str:
    """Format the error for a name that is not among the known ones.

    Lists the known names (the most similar ones if there are many) and suggests the nearest.
    """
    names = list(known)
    listed = f": {', '.join(names)}" if names else " (there are none)"
    if len(names) > MOST_LISTED:
        alike = difflib.get_close_matches(name, names, n=OF_MANY, cutoff=0.0)
        listed = f" such as {', '.join(alike)} ({len(names)} in all)"
    got = name if name.isprintable() and name == name.strip() else repr(name)
    return f"expected {what}{listed}; got {got}{did_you_mean(name, names)}"


def selection(what: str, texts: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names that options such as `a,b` select, in the order of the spec; None for all.

    A name may contain commas, as the names of matrix variants do. Raises UsageError.
    """
    if not texts:
        return None
    chosen: list[str] = []
    for text in texts:
        names = split_names(text, known)
        if names is None:
            wrong = [part for part in text.split(",") if part not in known]
            expected = expected_name(f"a {what} of the spec", ",".join(wrong), known)
            raise UsageError(f"{what}s: {expected}")
        chosen += [name for name in names if name not in chosen]
    return tuple(name for name in known if name in chosen)


def split_names(text: str, known: tuple[str, ...]) -> list[str] | None:
    """Split `text` into known names; None if it is not a list of them."""
    if text in known:
        return [text]
    for name in known:
        if text.startswith(f"{name},"):
            rest = split_names(text[len(name) + 1 :], known)
            if rest is not None:
                return [name, *rest]
    return None
