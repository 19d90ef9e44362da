"""Define a build request: all properties of a variant and its source that determine its recipe, as plain values.

A build host receives it as JSON, so this module and all modules that the worker imports (see worker.py) need
only Python's standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BuildRequest:
    """A request to build an artifact.

    `options` are CMake variables without the allocator; `source` and `pin` are digests of identity.py.
    `programs` selects programs (empty: all). `with_cargo`: the allocator is built with cargo. `origin` says
    where the source was copied from, for the provenance, if it is not the directory that is built.
    """

    options: Mapping[str, str]
    allocator: str
    with_cargo: bool
    source: str
    pin: str
    origin: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the request as values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> BuildRequest:
        """Read a request. Raises TypeError for another document."""
        return cls(**{**document, "programs": tuple(document.get("programs", ()))})
