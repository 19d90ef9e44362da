"""perfrunner as a child of itself, for nights and for jobs of a fleet."""

from __future__ import annotations

import subprocess
from pathlib import Path

import perfrunner
from perfrunner.children import PERFRUNNER


def test_it_does_not_load_what_lies_in_the_current_directory(tmp_path: Path) -> None:
    """Users have a random.py of their own, and older clones of perfrunner."""
    (tmp_path / "perfrunner").mkdir()
    for name in ("random.py", "click.py", "perfrunner/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('not this one')\n")
    done = subprocess.run(
        [*PERFRUNNER, "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"perfrunner, version {perfrunner.__version__}\n"
