"""Directories that do not exist: the current one, an unknown user's home, a cache that is not absolute."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fakes import ROOT

NOBODY = "~nobody-of-that-name"
FIRST = ROOT / "specs" / "first.yaml"


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["validate", str(FIRST), "--set", f"cluster={NOBODY}/c.yaml"], 2, "no such file"),
        (["validate", str(FIRST), "--set", f"workloads.append.use={NOBODY}/w.yaml"], 2, "no such file"),
        (["ab", f"{NOBODY}/a", f"{NOBODY}/b"], 2, NOBODY),
        (["report", "--out", f"{NOBODY}/x"], 3, "no results in"),
    ],
    ids=["cluster", "use", "ab", "out"],
)  # fmt: skip
def test_the_home_of_an_unknown_user(cli, words, code, output):
    result = cli(*words, code=code)
    assert output in result.stderr


def without_a_home(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run perfrunner as a user without HOME and without an entry in the user database."""
    code = """
import pwd, sys
def nobody(*_):
    raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = nobody
from perfrunner.cli import main
main()
"""
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("HOME", "XDG_CACHE_HOME", "PERFRUNNER_CACHE")
    }
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, env={**env, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["run", "build", "plan", "doctor", "clean"])
def test_no_home_and_no_cache_is_refused(tmp_path: Path, command: str) -> None:
    done = without_a_home(command, *([] if command == "clean" else [str(FIRST)]), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "cannot use the build cache ~/.cache/perfrunner: HOME is not set" in done.stderr
    assert "--cache DIR" in done.stderr
    assert not list(tmp_path.iterdir()), "no directory called ~"


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_no_home_but_a_cache(tmp_path: Path, command: str) -> None:
    done = without_a_home(
        command, str(FIRST), cwd=tmp_path, PERFRUNNER_CACHE=str(tmp_path / "cache")
    )
    assert done.returncode in ((0,) if command == "plan" else (0, 3)), done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_of_an_unknown_user(cli) -> None:
    result = cli("plan", str(FIRST), "--cache", f"{NOBODY}/x", code=2)
    assert "there is no user nobody-of-that-name" in result.stderr


@pytest.mark.parametrize("words", [["clean"], ["doctor", str(FIRST)], ["init", "{}/sp"]])
def test_the_home_of_another_user(cli, tmp_path: Path, monkeypatch, words: list[str]) -> None:
    """`su` and `sudo -u` may leave HOME=/root, where even stat is refused."""
    locked = tmp_path / "locked"
    stat = os.stat

    def refused(path, *args, **options):
        if str(path).startswith(str(locked)):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    monkeypatch.setenv("HOME", str(locked))
    monkeypatch.setenv("PERFRUNNER_CACHE", str(locked / "cache"))
    result = cli(*[word.format(locked) for word in words], code=2)
    assert "permission denied" in result.stderr
    assert str(locked) in result.stderr
    assert "HOME" in result.stderr


@pytest.mark.parametrize("command", ["validate", "plan", "run", "build"])
def test_a_loop_of_links(cli, tmp_path: Path, command: str) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    result = cli(command, str(loop), code=2)
    assert "too many levels of symbolic links" in result.stderr


def test_homes_are_expanded_by_one_function() -> None:
    """Path.expanduser and Path.home raise RuntimeError for a user without a home."""
    matches = [
        str(path) for path in (ROOT / "perfrunner").rglob("*.py")
        if path.name != "paths.py" and re.search(r"\.expanduser\(|Path\.home\(", path.read_text())
    ]  # fmt: skip
    assert matches == []


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
