"""Import the public names of a package on first use, so that importing the package stays fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def names_of(namespace: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package; `places` maps each public name to its module."""

    def fetch(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(places[name]), name)
        namespace[name] = value
        return value

    return fetch
