"""The state of a bisection, stored in a file so that an interrupted bisection can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perfrunner.errors import StoreError

Outcome: TypeAlias = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Step:
    """The comparison of a commit with the good revision.

    `estimate`, `low` and `high` are the effect on the metric (a ratio or a difference) and its
    interval. They are None if nothing was measured; `why` then gives the reason. `content` and
    `programs` are SHA-256 sums of the engine's source and of the built files.
    """

    commit: str
    title: str
    outcome: Outcome
    why: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None
    blocks: int = 0
    experiment: str | None = None
    content: str | None = None
    programs: str | None = None


@dataclass
class BisectState:
    """A bisection: two revisions and the steps so far, of which the first is the bad revision.

    `kind` is the kind of the effect, "ratio" or "difference".
    """

    spec: str
    metric: str
    good: str
    bad: str
    steps: list[Step] = field(default_factory=list)
    kind: str = "ratio"

    def commits(self, outcome: Outcome) -> list[str]:
        """Return the commits with this outcome, in the order of the steps."""
        return [step.commit for step in self.steps if step.outcome == outcome]

    def save(self, path: Path) -> None:
        """Write the state, completely or not at all. Raises StoreError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".new")
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(asdict(self), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> BisectState | None:
        """Read a state; None if there is no file. Raises StoreError if it cannot be read."""
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            steps: Sequence[dict[str, Any]] = document.pop("steps")
            return cls(**document, steps=[Step(**step) for step in steps])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}", "start again without --resume"
            ) from error
