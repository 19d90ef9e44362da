"""The scripts around perfrunner, in a copy of the checkout with a perfrunner that only says how it was called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perfrunner.cli.run import command
from perfrunner.spec.assemble import profile_names

ROOT = Path(__file__).parents[3]
SPECS = ROOT / "specs" / "experiments"


@pytest.fixture
def checkout(tmp_path):
    """With two specs, one of which has gains, and a page of the other."""
    for name in ("perf-lane", "publish", "lib/install.sh"):
        copy = tmp_path / "scripts" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / "scripts" / name).read_bytes())
    specs = tmp_path / "specs" / "experiments"
    specs.mkdir(parents=True)
    (specs / "gaining.yaml").write_text("name: gaining\nexpected_gains:\n  - {}\n")
    (specs / "plain.yaml").write_text("name: plain\n")
    pages = tmp_path / "docs" / "experiments"
    pages.mkdir(parents=True)
    (pages / "plain.md").write_text("<!-- spec: ../../specs/experiments/plain.yaml -->\n# plain\n")
    (pages / "plain-large.md").write_text("<!-- spec: ../../specs/experiments/plain.yaml -->\n")
    (pages / "README.md").write_text("# pages\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "perfrunner"):
        (programs / name).write_text('#!/bin/sh\necho "$@"\nexit "${CODE:-0}"\n')
        (programs / name).chmod(0o755)
    (programs.parent / ".installed-base").touch()
    return tmp_path


def call(checkout, script, *words, code="0"):
    return subprocess.run(
        ["env", f"CODE={code}", "bash", str(checkout / "scripts" / script), *words],
        cwd=checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 3])
def test_perf_lane_runs_every_spec_with_expected_gains_and_ends_as_the_worst_of_them(
    checkout, code
):
    matches = call(checkout, "perf-lane", code=code)
    assert matches.returncode == code, matches.stderr
    assert matches.stdout.splitlines() == [
        f"run {checkout}/specs/experiments/gaining.yaml --profile lane --out {checkout}/build/perf-lane"
        " --fail-on lost"
    ]
    assert ("an expected gain is lost" in matches.stderr) is (code == 1)


def test_perf_lane_goes_on_after_a_lost_expected_gain_but_not_after_ctrl_c(checkout):
    words = ("--out", "there", "specs/experiments/plain.yaml", "specs/experiments/gaining.yaml")
    assert len(call(checkout, "perf-lane", *words, code=1).stdout.splitlines()) == 2
    interrupted = call(checkout, "perf-lane", *words, code=130)
    assert interrupted.returncode == 130
    assert len(interrupted.stdout.splitlines()) == 1
    assert f"--out {checkout}/there" in interrupted.stdout


@pytest.mark.parametrize(
    ("code", "lanes"), [(0, ["test --slow", "perf-lane"]), (1, ["test --slow"])]
)
def test_the_long_lane_holds_the_known_expected_gains(tmp_path, code, lanes):
    for name in ("test", "perf-lane"):
        program = tmp_path / "scripts" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\necho "$(basename "$0")" "$@"\nexit "$CODE"\n')
        program.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "nightly").write_bytes((ROOT / ".ci" / "nightly").read_bytes())
    matches = call(tmp_path, "../.ci/nightly", code=code)
    assert [line.strip() for line in matches.stdout.splitlines()] == lanes
    assert matches.returncode == code


def test_publish_measures_with_what_it_was_given_and_renews_the_page(checkout):
    matches = call(checkout, "publish", "plain", "--profile", "historic", "--resume")
    assert matches.stdout.splitlines() == [
        "run specs/experiments/plain.yaml --profile historic --resume",
        "-m tools.writeups docs/experiments/plain.md plain",
    ]
    kept = call(checkout, "publish", "plain", "--kept")
    assert kept.stdout == "-m tools.writeups docs/experiments/plain.md\n"


def test_publish_of_another_page_of_a_spec(checkout):
    matches = call(checkout, "publish", "plain-large", "--profile", "historic")
    assert matches.stdout.splitlines() == [
        "run specs/experiments/plain.yaml --profile historic",
        "-m tools.writeups docs/experiments/plain-large.md plain",
    ]


def test_publish_measures_a_page_as_it_says_that_it_is_made(checkout):
    page = checkout / "docs" / "experiments" / "plain-large.md"
    with page.open("a") as text:
        text.write(
            "<!-- run: --profile historic --set buckets=[ephemeral] --cluster specs/*.yaml -->\n"
        )
    matches = call(checkout, "publish", "plain-large", "--resume")
    assert matches.stdout.splitlines()[0] == (
        "run specs/experiments/plain.yaml --profile historic --set buckets=[ephemeral]"
        " --cluster specs/*.yaml --resume"
    )


def test_options_of_a_page_are_those_of_a_run():
    """`perfrunner run` understands the options of a page, and its spec has the profile that they name."""
    output = [
        (path, matches)
        for path in sorted((ROOT / "docs" / "experiments").glob("*.md"))
        if (matches := re.search(r"^<!-- run: (.*) -->$", path.read_text(), re.MULTILINE))
    ]
    assert {path.stem for path, _ in output} >= {"failover", "two-nodes-pillowfight"}
    for path, matches in output:
        # The names are perfrunner's: click keeps the help option of the first context.
        names = ["-h", "--help"]
        words = ["spec.yaml", *matches[1].split()]
        context = command.make_context("run", words, help_option_names=names)
        spec = re.search(r"<!-- spec: (\S+) -->", path.read_text())
        assert spec is not None
        profile = context.params["profile"]
        assert profile is None or profile in profile_names(path.parent / spec[1]), path


def test_publish_does_not_publish_a_run_that_failed(checkout):
    matches = call(checkout, "publish", "plain", code=3)
    assert matches.returncode == 3
    assert "report" not in matches.stdout


@pytest.mark.parametrize(
    ("script", "words", "code", "output"),
    [
        ("perf-lane", ["--help"], 0, "expected gain"),
        ("perf-lane", ["--nonsense"], 2, "unknown option --nonsense"),
        ("publish", ["--help"], 0, "--kept"),
        ("publish", [], 2, "Usage"),
        ("publish", ["gaining"], 2, "no docs/experiments/gaining.md"),
        ("publish", ["nonsense"], 2, "there are: README plain-large plain"),
        ("publish", ["README"], 2, "names no spec"),
    ],
)
def test_help_and_errors(checkout, script, words, code, output):
    matches = call(checkout, script, *words)
    assert matches.returncode == code
    assert output in matches.stdout + matches.stderr


@pytest.fixture
def machine(checkout, monkeypatch):
    """A checkout of the quickstart, and fakes of the programs that know and install packages, for root."""
    shutil.copytree(
        ROOT / "scripts" / "lib", checkout / "scripts" / "lib", symlinks=True, dirs_exist_ok=True
    )
    shutil.copy(ROOT / "scripts" / "quickstart", checkout / "scripts" / "quickstart")
    (checkout / "requirements").mkdir()
    (checkout / "requirements" / "base.txt").write_text("click==8\n")
    results = checkout / "results" / "quickstart-20260101-000000"
    results.mkdir(parents=True)
    (results / "report.html").touch()
    tools = checkout / "tools"
    tools.mkdir()
    for name, line in {
        "id": "echo 0",
        "dpkg-query": '[ -z "$INSTALLED" ] || printf "installed %s\\n" "$@"',
        "apt-get": 'echo "got $*"; [ -z "$BROKEN" ] || { echo "E: no such package"; exit 100; }',
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for name in ("INSTALLED", "BROKEN", "PERFRUNNER_OUT"):
        monkeypatch.delenv(name, raising=False)
    return checkout


def test_the_quickstart_installs_nothing_twice_and_ends_with_what_to_do_next(machine, monkeypatch):
    monkeypatch.setenv("INSTALLED", "all")
    os.utime(machine / ".venv" / ".installed-base", (2**31, 2**31))
    matches = call(machine, "quickstart", "--out", "results")
    assert matches.returncode == 0, matches.stderr
    assert matches.stdout == "run specs/experiments/quickstart.yaml --out results\n"
    assert "[1/1] builds, measurement and report: about" in matches.stderr
    assert "open results/quickstart-20260101-000000/report.html in a browser" in matches.stderr
    assert "perfrunner init" in matches.stderr
    failed = call(machine, "quickstart", "--out=results", code="3")
    assert failed.returncode == 3
    assert "What to do next" not in failed.stderr


def test_the_quickstart_says_what_it_installs_and_where_the_logs_are(machine):
    matches = call(machine, "quickstart", "--out", "results")
    assert matches.returncode == 0, matches.stderr
    steps = [line for line in matches.stderr.splitlines() if re.search(r"\[[12]/2\]", line)]
    assert ["about" in step for step in steps] == [True, True]
    log = (machine / "build" / "packages.log").read_text()
    assert re.search(
        r"^got install .* DPkg::Path=\S*/scripts/lib/no-services:.* cmake ", log, re.MULTILINE
    )
    assert "--require-hashes" in (machine / "build" / "python.log").read_text()


def test_what_cannot_be_installed_is_shown_with_the_name_of_its_log(machine, monkeypatch):
    monkeypatch.setenv("BROKEN", "yes")
    matches = call(machine, "quickstart")
    assert matches.returncode == 3
    assert "E: no such package" in matches.stderr
    assert "log: build/packages.log" in matches.stderr
    assert matches.stdout == ""
