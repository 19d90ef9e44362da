"""Find the engine's programs that `scripts/test` has built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from tests.support.fakes import ROOT
from tests.support.tiny_engine import variant

# Outlives the tests: only the first run of a source compiles.
CACHE = Path(os.environ.get("PERFRUNNER_CACHE", ROOT / "build" / "perfrunner-cache"))


def built(*programs: str) -> Path:
    """Return the artifact of a default build with the system's allocator. Fails the test if a program is missing."""
    directory = Path(os.environ.get("KV_BIN_DIR", ROOT / "build" / "artifact" / "bin"))
    if lacking := [name for name in programs if not (directory / name).is_file()]:
        pytest.fail(
            f"no {' and '.join(lacking)} in {directory}: set KV_BIN_DIR, or run scripts/test"
        )
    return directory.parent


def build_defaults() -> Artifact:
    """Return the same artifact from perfrunner's build cache, which can be relinked. Builds it if it is missing."""
    return build_variant(variant(), ROOT / "engine_src", CACHE, print)
