"""Remember settings checks, so that a repeated `perfrunner build` need not start the engines again.

A settings check is valid for one build, one set of run-time settings and one cluster. `run` does not
use remembered checks: it checks every variant on the hosts that it is going to measure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from perfrunner.spec import Spec


class RememberedSettingsChecks:
    """The settings checks in the cache directory, one file for each."""

    def __init__(self, cache_dir: Path, spec: Spec) -> None:
        self.cache_dir = cache_dir
        self._directory = cache_dir / "settings_checks"
        self._spec = spec

    def find(self, variant: str, build_id: str) -> Mapping[str, str] | None:
        """Return the settings that were read back, or None without a readable settings check."""
        try:
            text = self._path(variant, build_id).read_text(encoding="utf-8")
            return cast("Mapping[str, str]", json.loads(text)["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # the variant is checked again and the file rewritten

    def remember(self, variant: str, build_id: str, settings: Mapping[str, str]) -> None:
        """Store a settings check; the file is renamed into place, so a reader sees all or nothing."""
        path = self._path(variant, build_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(
            json.dumps({"variant": variant, "build_id": build_id, "settings": dict(settings)}),
            encoding="utf-8",
        )
        temporary.replace(path)

    def _path(self, variant: str, build_id: str) -> Path:
        key = {
            "build_id": build_id,
            "variant": self._spec.variants[variant].model_dump(
                mode="json", exclude={"name", "source"}
            ),
            "params": self._spec.params_of(variant),
            "engine": self._spec.engine.model_dump(mode="json"),
            "cluster": self._spec.cluster.model_dump(mode="json"),
        }
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return self._directory / f"{digest[:32]}.json"
