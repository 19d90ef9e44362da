"""scripts/nightly: arguments, environment and the checkout that it pulls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("words", [["--help"], ["--nonsense"]])
def test_the_script_works_from_anywhere_with_nothing_in_its_environment(tmp_path, words):
    script = ROOT / "scripts" / "nightly"
    matches = subprocess.run(
        ["env", "-i", "bash", str(script), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    if words == ["--help"]:
        assert matches.returncode == 0
        assert "--pull" in matches.stdout
    else:
        assert (matches.returncode, matches.stdout) == (3, "")
        assert "unknown option --nonsense" in matches.stderr


def copy_of_the_script(directory):
    for name in ("nightly", "lib/install.sh"):
        copy = directory / "scripts" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / "scripts" / name).read_bytes())


def perfrunner_that_says_how_it_was_called(directory):
    tool = directory / ".venv" / "bin" / "perfrunner"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$HOME" "$@"\n')
    tool.chmod(0o755)


def test_the_script_hands_on_what_it_was_given_and_installs_nothing(tmp_path):
    """In a copy of the checkout's scripts, with a perfrunner that only says how it was called."""
    copy_of_the_script(tmp_path)
    (tmp_path / "s.yaml").write_text("name: s\n")
    script = ["env", "-i", "bash", str(tmp_path / "scripts" / "nightly"), "--keep", "3", "s.yaml"]
    missing = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert missing.returncode == 3
    assert missing.stdout.startswith("Subject: perfrunner: nightly could not begin\n")
    assert "--install" in missing.stdout
    perfrunner_that_says_how_it_was_called(tmp_path)
    gone = [*script, "gone/away.yaml"]  # perfrunner tells of it, after the others have run
    output = subprocess.run(gone, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    home, *given = output.splitlines()
    assert home.startswith("/")
    assert given == [
        "nightly", "--keep", "3", "--out", f"{tmp_path}/perfrunner-results", f"{tmp_path}/s.yaml",
        f"{tmp_path}/gone/away.yaml",
    ]  # fmt: skip


@pytest.fixture
def origin(tmp_path):
    """A repository with the script, and checkout/, a clone of it."""
    copy_of_the_script(tmp_path / "origin")
    git(tmp_path / "origin", "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path / "origin", "first")
    git(tmp_path, "clone", "--quiet", "origin", "checkout")
    perfrunner_that_says_how_it_was_called(tmp_path / "checkout")
    return tmp_path / "origin"


def git(directory, *words):
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True)


def commit(directory, text):
    (directory / "source").write_text(text)
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", text)


def pulled(checkout):
    """What the script hands on of the pull: (the option's value, the checkout's source afterwards)."""
    script = ["env", "-i", "bash", str(checkout / "scripts" / "nightly"), "--pull"]
    output = subprocess.run(
        script, cwd=checkout.parent, capture_output=True, text=True, check=True
    ).stdout
    unready = output.partition("--unready\n")[2].partition("\n--out\n")[0]
    return unready, (checkout / "source").read_text()


def test_the_script_pulls_what_is_new(origin):
    checkout = origin.parent / "checkout"
    assert pulled(checkout) == ("", "first")
    commit(origin, "second")
    assert pulled(checkout) == ("", "second")


def test_what_cannot_be_pulled_is_reported_and_the_checkout_is_measured_as_it_is(origin):
    checkout = origin.parent / "checkout"
    commit(origin, "second")
    commit(checkout, "of its own")
    unready, source = pulled(checkout)
    assert source == "of its own"
    assert unready.startswith("git pull: ")
    assert "fast-forward" in unready
    origin.rename(origin.parent / "gone")
    assert "does not appear to be a git repository" in pulled(checkout)[0]
