"""What a build is asked for: everything of a variant and of its source that decides its recipe, as plain values.

A build host gets it as JSON, so nothing here or in what the worker imports (see worker.py) may need more than Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BuildRequest:
    """`options` are CMake variables without the allocator; `source` and `pin` the sums of identity.py.

    `programs`: of the artifact's only these; empty: all. `with_cargo`: the allocator is built with cargo. `origin`:
    where the source was copied from, for the provenance, when that is not the directory that is built.
    """

    options: Mapping[str, str]
    allocator: str
    with_cargo: bool
    source: str
    pin: str
    origin: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> BuildRequest:
        """TypeError for what is no request."""
        return cls(**{**document, "programs": tuple(document.get("programs", ()))})
