"""What a build yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Artifact:
    """A relocatable directory: bin/, lib/ (what Debian's base lacks), manifest.json, provenance.json.

    Variants that differ only in run-time settings share one. `cached`: it was there already; `seconds`: what this
    call took.
    """

    build_id: str
    path: Path
    provenance: dict[str, Any] = field(repr=False)
    cached: bool
    seconds: float
