"""The engine's programs as `scripts/test` left them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fakes import ROOT


def built(*programs: str) -> Path:
    """The artifact: a build of the defaults with the system's allocator. The test fails where it lacks a program."""
    directory = Path(os.environ.get("KV_BIN_DIR", ROOT / "build" / "artifact" / "bin"))
    if lacking := [name for name in programs if not (directory / name).is_file()]:
        pytest.fail(
            f"no {' and '.join(lacking)} in {directory}: set KV_BIN_DIR, or run scripts/test"
        )
    return directory.parent
