"""The engine's programs as `scripts/test` left them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfrunner.build import Artifact, build_variant
from tests.support.fakes import ROOT
from tests.support.tiny_engine import variant

# Outlives the tests: only the first run of a source compiles.
CACHE = Path(os.environ.get("PERFRUNNER_CACHE", ROOT / "build" / "perfrunner-cache"))


def built(*programs: str) -> Path:
    """The artifact: a build of the defaults with the system's allocator. The test fails where it lacks a program."""
    directory = Path(os.environ.get("KV_BIN_DIR", ROOT / "build" / "artifact" / "bin"))
    if lacking := [name for name in programs if not (directory / name).is_file()]:
        pytest.fail(
            f"no {' and '.join(lacking)} in {directory}: set KV_BIN_DIR, or run scripts/test"
        )
    return directory.parent


def build_defaults() -> Artifact:
    """The same from perfrunner's build cache, where it can be linked again. Builds it if it is not there."""
    return build_variant(variant(), ROOT / "engine_src", CACHE, print)
