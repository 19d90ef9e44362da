"""Streams that are not UTF-8, and text from outside that is not."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.report import build_report, render, write_html
from perfrunner.results import BuildRecord, ResultStore
from perfrunner.text import all_readable, readable

NAME = os.fsdecode(b"caf\xe9.cc")  # Latin-1 where UTF-8 is expected


def run(demo, *words, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("LANG", "LC_ALL", "PYTHONUTF8")}
    return subprocess.run(
        [sys.executable, "-m", "perfrunner", *words, "--out", str(demo)],
        env={**clean, "PYTHONPATH": str(Path.cwd()), **environment}, capture_output=True, check=False,
    )  # fmt: skip


def usual(demo, *words):
    """Return what a command prints in UTF-8."""
    return CliRunner().invoke(main, [*words, "--out", str(demo)], catch_exceptions=False).stdout


def numbers(text):
    return re.findall(r"\d+\.\d+", text)


LATIN = {"PYTHONIOENCODING": "latin-1"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
TURKISH = {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        pytest.param(("report", "-v", "--all"), LATIN, marks=pytest.mark.long),
        (("report", "--format", "markdown"), C_LOCALE),
        pytest.param(("history",), TURKISH, marks=pytest.mark.long),
        (("list",), {"PYTHONIOENCODING": "cp1254"}),
    ],
    ids=["latin-1", "C", "tr_TR", "cp1254"],
)
def test_output_needs_no_utf_8(demo, words, environment):
    done = run(demo, *words, **environment)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    written, wanted = done.stdout.decode("latin-1"), usual(demo, *words)
    assert numbers(written) == numbers(wanted)
    if environment == LATIN:  # the nearest character is written
        minus = wanted.count("\N{MINUS SIGN}")
        assert minus > 0
        assert written.count("-") == wanted.count("-") + minus


@pytest.mark.long
def test_a_json_document_is_utf_8_in_every_locale(demo):
    """Its characters are those of ASCII, so that nothing is replaced either."""
    plain = run(demo, "report", "--format", "json", **LATIN).stdout
    assert plain == usual(demo, "report", "--format", "json").encode()
    assert "·" in plain.decode("utf-8").encode().decode("unicode_escape")


def test_text_that_is_not_utf_8_is_made_readable():
    assert readable(NAME) == "caf\N{REPLACEMENT CHARACTER}.cc"
    assert all_readable({NAME: (NAME, 1, None, {"a\0": [True]})}) == {
        readable(NAME): [readable(NAME), 1, None, {"a\N{REPLACEMENT CHARACTER}": [True]}]
    }


def test_a_record_with_such_text_is_stored_and_reported(tmp_path, data):
    experiment = dataclasses.replace(
        data.experiment, spec_path=f"/specs/{NAME}", facts={**data.experiment.facts, "note": {NAME: f"{NAME}\0"}},
    )  # fmt: skip
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment)
        store.set_facts(experiment.id, experiment.facts)
        for trial in data.trials:
            store.add_trial(experiment.id, dataclasses.replace(trial, reason=NAME))
        store.add_build(experiment.id, BuildRecord("glibc", "b1", provenance={"title": NAME}))
        stored = store.load(experiment.id)
    assert stored.experiment.spec_path == f"/specs/{readable(NAME)}"
    assert stored.trials[0].reason == readable(NAME)
    assert stored.builds[0].provenance == {"title": readable(NAME)}
    report = build_report(stored)
    json.loads(render(report, "json").encode())
    assert write_html(report, stored, tmp_path / "page.html").read_text(encoding="utf-8")


def test_facts_that_were_stored_with_such_text_are_reported(tmp_path, data):
    """Older versions stored them: the bytes are escapes in the JSON of SQLite."""
    import sqlite3

    with ResultStore.open(tmp_path) as store:
        store.create_experiment(data.experiment)
    facts = json.dumps({**data.experiment.facts, "note": NAME})
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        connection.execute("UPDATE experiments SET facts = ?", (facts,))
    with ResultStore.open(tmp_path) as store:
        assert store.load(data.experiment.id).experiment.facts["note"] == readable(NAME)
