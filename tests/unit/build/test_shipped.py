"""The builder that is sent to build hosts: one file, the same bytes every time, Python's standard library only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perfrunner.build.remote import builder_archive


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "builder.pyz"
    path.write_bytes(builder_archive())
    return path


def test_it_has_one_content() -> None:
    assert builder_archive.__wrapped__() == builder_archive()


def test_it_runs_without_any_package(archive: Path) -> None:
    """-S: no site-packages, so no pydantic and no perfrunner."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", archive, "tools", '{"allocator": "jemalloc"}'],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["error"] == "no C++ compiler found"
    assert done.returncode == 3


def test_a_python_that_is_too_old_is_reported_in_a_sentence(archive: Path) -> None:
    code = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, archive], capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["error"] == "python3 is 3.9, and the builder needs 3.10"
    assert (done.returncode, done.stderr) == (3, "")
