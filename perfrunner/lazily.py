"""Packages whose names are fetched when they are asked for: what needs only a few of them shall not load the rest."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def names_of(namespace: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `places` says in which module each of its names is defined."""

    def fetch(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(places[name]), name)
        namespace[name] = value
        return value

    return fetch
