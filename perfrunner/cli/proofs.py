"""Proofs that were made before, so that a repeated `perfrunner build` need not start the engines again.

A proof holds for one build, one set of run-time settings and one cluster. `run` never uses these: it proves
every variant afresh on the hosts that it is going to measure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from perfrunner.spec import Spec


class RememberedProofs:
    """Files below the cache directory, one a proof."""

    def __init__(self, cache_dir: Path, spec: Spec) -> None:
        self._directory = cache_dir / "proofs"
        self._spec = spec

    def find(self, variant: str, build_id: str) -> Mapping[str, str] | None:
        """The settings that were read back; None without a (readable) proof."""
        try:
            text = self._path(variant, build_id).read_text(encoding="utf-8")
            return cast("Mapping[str, str]", json.loads(text)["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it is proved again, and written anew

    def remember(self, variant: str, build_id: str, settings: Mapping[str, str]) -> None:
        """Written to the side and renamed: a reader sees all of it or nothing."""
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
