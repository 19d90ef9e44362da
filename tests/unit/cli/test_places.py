"""Directories that do not exist: the current one, an unknown user's home, a cache that is not absolute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fakes import ROOT

NOBODY = "~nobody-of-that-name"
FIRST = ROOT / "specs" / "first.yaml"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["validate", str(FIRST), "--set", f"cluster={NOBODY}/c.yaml"], 2, "no such file"),
        (["validate", str(FIRST), "--set", f"workloads.append.use={NOBODY}/w.yaml"], 2, "no such file"),
        (["ab", f"{NOBODY}/a", f"{NOBODY}/b"], 2, NOBODY),
        (["report", "--out", f"{NOBODY}/x"], 3, "no results in"),
    ],
    ids=["cluster", "use", "ab", "out"],
)  # fmt: skip
def test_the_home_of_an_unknown_user(cli, words, code, said):
    result = cli(*words, code=code)
    assert said in result.stderr


@pytest.mark.parametrize(
    "words", [["plan", FIRST], ["validate", "x.yaml"], ["run", FIRST], ["site", "x"]]
)
def test_a_current_directory_that_was_removed(tmp_path: Path, words: list[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$0"; exec "$@"', gone, sys.executable, "-m", "perfrunner", *words],
        cwd=gone, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3)
    assert "the current directory does not exist any more" in done.stderr or words[0] == "site"


@pytest.mark.parametrize(
    ("cache_home", "expected"),
    [("relative", "~/.cache/perfrunner"), ("", "~/.cache/perfrunner"), ("/c", "/c/perfrunner")],
)
def test_the_default_cache(cache_home: str, expected: str) -> None:
    code = "from perfrunner.cli.options import DEFAULT_CACHE; print(DEFAULT_CACHE)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": cache_home},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == expected
