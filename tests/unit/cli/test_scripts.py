"""The scripts around perfrunner, in a copy of the checkout with a perfrunner that only says how it was called."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from perfrunner.cli.run import command
from perfrunner.spec.profiles import profile_names

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
    (specs / "gaining.yaml").write_text("name: gaining\ngains:\n  - {}\n")
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
def test_perf_lane_runs_every_spec_with_gains_and_ends_as_the_worst_of_them(checkout, code):
    found = call(checkout, "perf-lane", code=code)
    assert found.returncode == code, found.stderr
    assert found.stdout.splitlines() == [
        f"run {checkout}/specs/experiments/gaining.yaml --profile lane --out {checkout}/build/perf-lane"
        " --fail-on lost"
    ]
    assert ("a known gain is lost" in found.stderr) is (code == 1)


def test_perf_lane_goes_on_after_a_lost_gain_but_not_after_ctrl_c(checkout):
    words = ("--out", "there", "specs/experiments/plain.yaml", "specs/experiments/gaining.yaml")
    assert len(call(checkout, "perf-lane", *words, code=1).stdout.splitlines()) == 2
    interrupted = call(checkout, "perf-lane", *words, code=130)
    assert interrupted.returncode == 130
    assert len(interrupted.stdout.splitlines()) == 1
    assert f"--out {checkout}/there" in interrupted.stdout


@pytest.mark.parametrize(
    ("code", "lanes"), [(0, ["test --slow", "perf-lane"]), (1, ["test --slow"])]
)
def test_the_long_lane_holds_the_known_gains(tmp_path, code, lanes):
    for name in ("test", "perf-lane"):
        program = tmp_path / "scripts" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\necho "$(basename "$0")" "$@"\nexit "$CODE"\n')
        program.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "nightly").write_bytes((ROOT / ".ci" / "nightly").read_bytes())
    found = call(tmp_path, "../.ci/nightly", code=code)
    assert [line.strip() for line in found.stdout.splitlines()] == lanes
    assert found.returncode == code


def test_publish_measures_with_what_it_was_given_and_renews_the_page(checkout):
    found = call(checkout, "publish", "plain", "--profile", "historic", "--resume")
    assert found.stdout.splitlines() == [
        "run specs/experiments/plain.yaml --profile historic --resume",
        "report plain --page docs/experiments/plain.md",
    ]
    kept = call(checkout, "publish", "plain", "--kept")
    assert kept.stdout == "report --page docs/experiments/plain.md\n"


def test_publish_of_another_page_of_a_spec(checkout):
    found = call(checkout, "publish", "plain-large", "--profile", "historic")
    assert found.stdout.splitlines() == [
        "run specs/experiments/plain.yaml --profile historic",
        "report plain --page docs/experiments/plain-large.md",
    ]


def test_publish_measures_a_page_as_it_says_that_it_is_made(checkout):
    page = checkout / "docs" / "experiments" / "plain-large.md"
    with page.open("a") as text:
        text.write(
            "<!-- run: --profile historic --set buckets=[ephemeral] --cluster specs/*.yaml -->\n"
        )
    found = call(checkout, "publish", "plain-large", "--resume")
    assert found.stdout.splitlines()[0] == (
        "run specs/experiments/plain.yaml --profile historic --set buckets=[ephemeral]"
        " --cluster specs/*.yaml --resume"
    )


def test_options_of_a_page_are_those_of_a_run():
    """What a page says is what `perfrunner run` understands, of a profile that its spec has."""
    said = [
        (path, found)
        for path in sorted((ROOT / "docs" / "experiments").glob("*.md"))
        if (found := re.search(r"^<!-- run: (.*) -->$", path.read_text(), re.MULTILINE))
    ]
    assert {path.stem for path, _ in said} >= {"failover", "two-nodes-pillowfight"}
    for path, found in said:
        context = command.make_context("run", ["spec.yaml", *found[1].split()])
        spec = re.search(r"<!-- spec: (\S+) -->", path.read_text())
        assert spec is not None
        assert context.params["profile"] in profile_names(path.parent / spec[1]), path


def test_publish_does_not_publish_a_run_that_failed(checkout):
    found = call(checkout, "publish", "plain", code=3)
    assert found.returncode == 3
    assert "report" not in found.stdout


@pytest.mark.parametrize(
    ("script", "words", "code", "said"),
    [
        ("perf-lane", ["--help"], 0, "known gain"),
        ("perf-lane", ["--nonsense"], 2, "unknown option --nonsense"),
        ("publish", ["--help"], 0, "--profile historic"),
        ("publish", [], 2, "Usage"),
        ("publish", ["gaining"], 2, "no docs/experiments/gaining.md"),
        ("publish", ["nonsense"], 2, "there are: README plain-large plain"),
        ("publish", ["README"], 2, "names no spec"),
    ],
)
def test_help_and_errors(checkout, script, words, code, said):
    found = call(checkout, script, *words)
    assert found.returncode == code
    assert said in found.stdout + found.stderr


@pytest.fixture
def linted(checkout):
    """As a repository, with formatters that only look for the word `bad`, and every package there."""
    for name, text in {
        "scripts/lint": (ROOT / "scripts" / "lint").read_text(),
        "engine_src/x.cc": "int x;\n",
        "perfrunner/cluster/programs/p.sh": "true\n",
    }.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tools = checkout / "tools"
    tools.mkdir()
    says = dict.fromkeys(("clang-format-14", "shellcheck"), '! grep -l bad -- "${@: -1}"')
    says["dpkg-query"] = "echo install ok installed"
    for name, line in says.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    for name in ("ruff", "mypy"):
        program = checkout / ".venv" / "bin" / name
        program.write_bytes((checkout / ".venv" / "bin" / "python").read_bytes())
        program.chmod(0o755)
    (checkout / ".venv" / ".installed-dev").touch()
    subprocess.run(["git", "init", "-q", "."], cwd=checkout, check=True)
    subprocess.run(["git", "add", "engine_src", "scripts"], cwd=checkout, check=True)
    return checkout


@pytest.mark.parametrize(("text", "code"), [("int x;\n", 0), ("int  bad;\n", 1)])
def test_the_quick_lint_looks_at_formats_and_leaves_out_types_and_clang_tidy(linted, text, code):
    (linted / "engine_src" / "x.cc").write_text(text)
    script = ["env", f"PATH={linted}/tools:{os.environ['PATH']}", "bash", f"{linted}/scripts/lint"]
    found = subprocess.run(
        [*script, "--quick"], cwd=linted, capture_output=True, text=True, check=False
    )
    assert found.returncode == code, found.stderr
    assert ("lint: quick, clean" in found.stderr) is (code == 0)
    assert ("check ." in found.stdout) is (code == 0)  # ruff


def test_the_gate_lints():
    assert 'scripts/lint" --quick' in (ROOT / "scripts" / "test").read_text()
    nightly = (ROOT / ".ci" / "nightly").read_text()
    assert '"$scripts/test" --slow' in nightly
    assert "perf-lane" in nightly
