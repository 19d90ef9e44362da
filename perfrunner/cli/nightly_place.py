"""What `perfrunner nightly` keeps between the nights, below the results directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

NIGHTLY = "nightly"
EVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Before:
    """Of a spec, after a night. `failed`: why its run ended badly, empty where it did not.

    `told`: when the newest run was begun whose news were printed; None where nothing was ever printed.
    """

    failed: str = ""
    told: datetime | None = None


@dataclass(frozen=True)
class Place:
    """Its directory: reports/, logs/, trend.html, state.json."""

    out: Path

    @property
    def reports(self) -> Path:
        return self.out / NIGHTLY / "reports"

    @property
    def logs(self) -> Path:
        return self.out / NIGHTLY / "logs"

    @property
    def trend(self) -> Path:
        return self.out / NIGHTLY / "trend.html"

    @property
    def _state(self) -> Path:
        return self.out / NIGHTLY / "state.json"

    def make(self) -> None:
        for directory in (self.reports, self.logs):
            directory.mkdir(parents=True, exist_ok=True)

    def state(self) -> Mapping[str, Before]:
        """By spec. A file that cannot be read is none."""
        try:
            found = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {str(k): _before(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def save(self, state: Mapping[str, Before]) -> None:
        """StoreError."""
        from perfrunner.report.files import write_whole

        text = json.dumps({k: asdict(v) for k, v in state.items()}, indent=1, default=_plain) + "\n"
        write_whole(self._state, text.encode())

    def keep_newest(self, spec: str, most: int) -> None:
        """Of the reports and logs of a spec; names end with the time."""
        for directory, suffix in ((self.reports, ".html"), (self.logs, ".log")):
            named = sorted(directory.glob(f"{spec}-[0-9]*-[0-9]*{suffix}"))
            for old in named[:-most]:
                old.unlink(missing_ok=True)


def _before(found: Any) -> Before:
    """An older perfrunner wrote why the run failed, and nothing else."""
    if not isinstance(found, dict):
        return Before(str(found))
    try:
        told = datetime.fromisoformat(str(found["told"]))
    except (KeyError, ValueError):
        told = None
    return Before(str(found.get("failed", "")), told)


def _plain(value: datetime) -> str:
    return value.isoformat()
