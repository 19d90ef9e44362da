"""What a bisection knows: its ends, its steps, and the file that outlives a kill."""

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
    """A commit against the good end. `estimate` and its interval are those of the metric's effect (a ratio, or a
    difference); None where nothing was measured, and `why` says so.
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
    content: str | None = None  # of the engine's source, sha256
    programs: str | None = None  # of what was built from it, sha256


@dataclass
class BisectState:
    """`kind` is that of the effect, "ratio" or "difference". The first step is the bad end itself."""

    spec: str
    metric: str
    good: str
    bad: str
    steps: list[Step] = field(default_factory=list)
    kind: str = "ratio"

    def commits(self, outcome: Outcome) -> list[str]:
        """Those that came out so, in the order in which they were tried."""
        return [step.commit for step in self.steps if step.outcome == outcome]

    def save(self, path: Path) -> None:
        """Whole or not at all."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(".new")
            with aside.open("w", encoding="utf-8") as file:
                json.dump(asdict(self), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> BisectState | None:
        """None where there is none. StoreError when it cannot be read."""
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            steps: Sequence[dict[str, Any]] = document.pop("steps")
            return cls(**document, steps=[Step(**step) for step in steps])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}", "begin anew, without --resume"
            ) from error
