"""What the shell proposes, asked through click's own completion class; and that nothing heavy is loaded for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from perfrunner.cli.group import COMMANDS, main
from perfrunner.paths import STORE_FILE
from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord
from perfrunner.spec.loader import load_spec

ROOT = Path(__file__).parents[3]
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.fixture
def proposed(cli):
    """proposed("report", "sm"): the values for the last word, in their order."""
    shell = BashComplete(main, {}, "perfrunner", "_PERFRUNNER_COMPLETE")

    def ask(*words: str) -> list[str]:
        return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]

    return ask


@pytest.fixture
def stored(cli):
    """small-1 and small-2 of the spec, and other-1, the newest."""
    spec = load_spec(cli.directory / "spec.yaml").model_dump(mode="json")
    with ResultStore.open(cli.directory / "perfrunner-results") as store:
        for i, (identifier, state) in enumerate(
            (("small-1", "done"), ("small-2", "running"), ("other-1", "done"))
        ):
            name = identifier[:-2]
            store.create_experiment(
                ExperimentRecord(
                    identifier, name, spec, "text", "spec.yaml", 7, START + timedelta(hours=i), "0.1.0", state=state,
                )
            )  # fmt: skip
            metrics = {"ops_per_s": 5.0, "Own/Bench/1/real_time": 1.0} if name == "other" else {}
            trial = TrialRecord(
                1, 1, 1, "pf", "persistent", "glibc", "b1", "ok", "", START, START, metrics, {}, "x",
            )  # fmt: skip
            store.add_trial(identifier, trial)


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("show",),
        ("export",),
        ("clean", "--results"),
        ("run", "--resume"),
        ("compare", "-e"),
    ],
    ids=" ".join,
)
def test_stored_experiments_newest_first_then_names(proposed, stored, words):
    assert proposed(*words, "") == ["other-1", "small-2", "small-1", "other", "small"]
    assert proposed(*words, "small-") == ["small-2", "small-1"]


def test_experiments_of_another_directory(proposed, stored, cli, monkeypatch):
    (cli.directory / "perfrunner-results").rename(cli.directory / "else where?")
    assert proposed("report", "") == []
    assert proposed("report", "--out", "else where?", "oth") == ["other-1", "other"]
    monkeypatch.setenv("PERFRUNNER_OUT", "else where?")
    assert proposed("report", "oth") == ["other-1", "other"]


def test_experiments_of_a_shared_store(proposed, stored, cli, monkeypatch):
    (cli.directory / "perfrunner-results" / STORE_FILE).rename(cli.directory / "all.sqlite")
    url = f"sqlite:///{cli.directory / 'all.sqlite'}?raw=/srv/raw"
    assert proposed("report", "--store", url, "oth") == ["other-1", "other"]
    monkeypatch.setenv("PERFRUNNER_STORE", url)
    assert proposed("report", "oth") == ["other-1", "other"]
    monkeypatch.setenv("PERFRUNNER_STORE", "postgresql://db.example.org/results")
    assert proposed("report", "oth") == [], "nobody waits for a server at TAB"


def test_variants_of_the_stored_experiment(proposed, stored):
    assert proposed("report", "small", "--baseline", "")[0] == "glibc"
    assert proposed("compare", "gl") == ["glibc"]
    assert proposed("compare", "glibc", "small-") == ["small-2", "small-1"]


def test_variants_of_a_spec_also_after_a_comma(proposed):
    matrix = ["auto,3", "always,3"]
    assert proposed("run", "spec.yaml", "--variants", "") == ["glibc", *matrix]
    assert proposed("run", "spec.yaml", "--variants", "a") == matrix
    assert proposed("run", "spec.yaml", "--variants", "glibc,") == [f"glibc,{m}" for m in matrix]
    assert proposed("run", "spec.yaml", "--variants", "always,3,g") == ["always,3,glibc"]
    assert proposed("run", "spec.yaml", "--variants", "nothing,g") == []
    assert proposed("aa", "spec.yaml", "--variant", "gl") == ["glibc"]
    assert proposed("run", "--variants", "") == []


def test_workloads_and_profiles_of_a_spec(proposed, cli):
    text = (cli.directory / "spec.yaml").read_text()
    (cli.directory / "spec.yaml").write_text(f"{text}profiles: {{large: {{blocks: 20}}}}\n")
    assert proposed("plan", "spec.yaml", "--workloads", "p") == ["pf"]
    assert proposed("run", "spec.yaml", "--workloads", "pf,") == ["pf,ap"]
    assert proposed("run", "spec.yaml", "--profile", "") == ["large"]
    assert proposed("ab", "main", "x", "--workload", "") == ["pillowfight", "append"]
    assert proposed("ab", "main", "x", "--spec", "spec.yaml", "--workload", "") == ["pf", "ap"]


def test_a_spec_with_mistakes_still_has_names(proposed, cli):
    text = (cli.directory / "spec.yaml").read_text()
    (cli.directory / "spec.yaml").write_text(text.replace("blocks: 2", "bloks: two"))
    assert proposed("run", "spec.yaml", "--workloads", "") == ["pf", "ap"]
    (cli.directory / "spec.yaml").write_text("[")
    assert proposed("run", "spec.yaml", "--workloads", "") == []
    assert proposed("run", "absent.yaml", "--workloads", "") == []


def test_metrics_of_the_store_and_of_the_spec_come_first(proposed, stored, cli):
    matches = proposed("history", "")
    assert matches[:2] == ["ops_per_s", "Own/Bench/1/real_time"]
    assert {"rss_bytes", "fragmentation_payload_rss"} <= set(matches)
    assert proposed("history", "Own") == ["Own/Bench/1/real_time"]
    assert "Own/Bench/1/real_time" not in proposed("history", "--spec", "small", "")
    text = (cli.directory / "spec.yaml").read_text()
    (cli.directory / "spec.yaml").write_text(f"{text}primary: [mem_used_bytes]\n")
    assert proposed("bisect", "spec.yaml", "--metric", "")[0] == "mem_used_bytes"


def test_a_store_that_is_none_proposes_nothing(proposed, cli):
    place = cli.directory / "perfrunner-results"
    assert proposed("report", "") == []
    assert not place.exists(), "nothing is created"
    place.mkdir()
    (place / STORE_FILE).write_text("no database " * 100)
    assert proposed("report", "") == []
    assert "ops_per_s" in proposed("history", "")


def test_local_is_a_cluster(proposed):
    assert proposed("run", "spec.yaml", "--cluster", "lo") == ["local", "lo"]


HEAVY = "('pydantic', 'numpy', 'fabric', 'paramiko', 'sqlalchemy', 'rich', 'scipy', 'matplotlib')"


def test_no_command_loads_a_heavy_library_for_its_help_and_completion(cli):
    """One process asks for all of them and for the list: the first that loads one is named."""
    code = (
        "import sys; from perfrunner.cli import main; from click.shell_completion import BashComplete\n"
        "shell = BashComplete(main, {}, 'perfrunner', 'X')\n"
        "assert [found.value for found in shell.get_completions([], 'un')] == ['untune']\n"
        f"loaded = [('', m) for m in {HEAVY} if m in sys.modules]\n"
        f"for name in {list(COMMANDS)!r}:\n"
        "    for words in ([], ['spec.yaml', '--variants'], ['spec.yaml', '--workloads']):\n"
        "        shell.get_completions([name, *words], '')\n"
        f"    loaded += [(name, m) for m in {HEAVY} if m in sys.modules]\n"
        "print(loaded[:1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cli.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_line_of_the_docs_works_in_bash(cli, stored):
    """The line for ~/.bashrc makes a function; the function, called as TAB does, fills COMPREPLY."""
    bash = shutil.which("bash")
    assert bash is not None
    docs = (ROOT / "docs" / "how-to" / "install.md").read_text()
    line = next(s.strip() for s in docs.splitlines() if s.strip().startswith('eval "$(_PERFRUNNER'))
    program = cli.directory / "perfrunner"
    code = "from perfrunner.cli import main; main(prog_name='perfrunner')"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}"\n')
    program.chmod(0o755)
    script = (
        f"PATH={cli.directory}:$PATH\n{line}\n"
        "COMP_WORDS=(perfrunner report small-) COMP_CWORD=2\n"
        "_perfrunner_completion perfrunner\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, check=False, cwd=cli.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == ["small-2", "small-1"], done.stderr
