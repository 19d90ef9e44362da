"""`perfrunner report` and `perfrunner compare`."""

from __future__ import annotations

import gc
import json
import sqlite3
import subprocess
import sys

import pytest
import synthetic
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.results import open_store


@pytest.fixture
def run(demo):
    def invoke(*words, out=demo):
        return CliRunner().invoke(main, [*words, "--out", str(out)], catch_exceptions=False)

    return invoke


def test_report_prints_the_latest_experiment(run):
    result = run("report")
    assert result.exit_code == 0
    assert result.stdout.startswith("quickstart\n")
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("columns", [60, 80])
def test_a_pipe_is_as_wide_as_it_is_asked_to_be(run, monkeypatch, columns):
    usual = run("report").stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    messages = run("report").stdout
    assert max(map(len, usual.splitlines())) > 100
    assert max(map(len, messages.splitlines())) <= columns
    assert "+1.5 % [+0.8, +2.1] ✔" in messages


@pytest.mark.parametrize("words", [("report",), ("report", "nonesuch")])
def test_garbage_is_collected_again_after_a_report(run, words):
    run(*words)
    assert gc.isenabled()


def test_json_is_all_of_stdout(run):
    result = run("report", "quickstart", "--format", "json")
    assert json.loads(result.stdout)["experiment"] == "demo-20261120"


def test_report_writes_files(run, tmp_path):
    result = run("report", "--format", "commit", "--output", str(tmp_path / "c.txt"))
    assert result.stdout == ""
    assert (tmp_path / "c.txt").read_text().startswith("pillowfight / persistent: ops_per_s")
    synthetic.write(
        tmp_path, synthetic.Shape(blocks=6, workloads=("append",), buckets=("ephemeral",))
    )
    result = run(
        "report",
        "--format",
        "html",
        "--output",
        str(tmp_path / "r.html"),
        "--charts",
        str(tmp_path / "c"),
        out=tmp_path,
    )
    assert (tmp_path / "r.html").stat().st_size > 80_000
    assert [path.name for path in (tmp_path / "c").glob("*.png")] == ["comparison.png"]
    assert (tmp_path / "c" / "forest-ops-per-s.svg").exists()
    assert "r.html" in result.stderr


@pytest.mark.parametrize("fmt", [pytest.param("terminal", marks=pytest.mark.long), "html"])
def test_a_report_loads_no_slow_library(tmp_path, fmt):
    """A report takes a second; each of these costs half of one. What is loaded, a busy machine can tell."""
    synthetic.write(
        tmp_path, synthetic.Shape(blocks=6, workloads=("append",), buckets=("ephemeral",))
    )
    words = ["report", "--out", str(tmp_path), "--format", fmt, "--output", str(tmp_path / "r")]
    code = (
        f"import sys\nfrom perfrunner.cli import main\n"
        f"try:\n    main({words})\nexcept SystemExit as end:\n    assert not end.code\n"
        "slow = {'scipy.stats', 'scipy.optimize', 'pandas', 'pyarrow', 'fabric', 'couchbase', 'pydantic'}\n"
        "slow |= {'perfrunner.spec.model', 'perfrunner.build', 'perfrunner.hosts'}\n"
        f"slow |= {{'matplotlib'}} if {fmt!r} == 'terminal' else {{'matplotlib.pyplot'}}\n"
        "sys.exit(', '.join(slow & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r").is_file()


def test_report_against_another_variant(run):
    result = run("report", "--baseline", "jemalloc-5.1.0", "--format", "json")
    assert {row["baseline"] for row in json.loads(result.stdout)["results"]} == {"jemalloc-5.1.0"}


def test_mistakes_end_with_two_and_a_hint(run, tmp_path):
    for words in (("report", "quikstart"), ("report", "--baseline", "jemaloc-5.1.0"),
                  ("compare", "glibc", "jemaloc-5.1.0"), ("compare", "glibc", "glibc"),
                  ("compare", "nothing", "nowhere")):  # fmt: skip
        result = run(*words)
        assert result.exit_code == 2, words
        assert result.stderr.startswith("error: ")
        assert result.stdout == ""
    assert run("report", out=tmp_path / "none").exit_code == 3


def test_compare_two_variants_takes_the_first_as_the_baseline(run):
    result = run("compare", "jemalloc-5.1.0", "glibc", "--format", "json")
    document = json.loads(result.stdout)
    assert {row["variant"] for row in document["results"]} == {"jemalloc-5.1.0", "glibc"}
    rows = [
        r for r in document["results"] if r["metric"] == "ops_per_s" and r["variant"] == "glibc"
    ]
    assert {r["baseline"] for r in rows} == {"jemalloc-5.1.0"}
    assert all(r["estimate"] < 1 for r in rows)
    assert "worse" in {r["verdict"] for r in rows}


def test_compare_takes_build_ids_too(run):
    builds = {v: f"{synthetic.hash_of(v):016x}" for v in synthetic.VARIANTS}
    by_id = run("compare", builds["glibc"], builds["jemalloc-5.1.0"][:8], "--format", "commit")
    assert by_id.stdout == run("compare", "glibc", "jemalloc-5.1.0", "--format", "commit").stdout


def test_compare_two_experiments_warns_and_gives_no_verdict(tmp_path):
    for name, seed in (("first-1", 1), ("second-2", 2)):
        synthetic.write(
            tmp_path,
            synthetic.Shape(
                blocks=6,
                discarded_block=None,
                seed=seed,
                workloads=("append",),
                buckets=("ephemeral",),
            ),
            name,
        )
    words = [
        "compare",
        "first-1",
        "second-2",
        "--variant",
        "jemalloc-5.1.0",
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(main, [*words, "--format", "json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert {row["verdict"] for row in document["results"]} == {None}
    assert {row["variant"] for row in document["results"]} == {
        "first-1/jemalloc-5.1.0", "second-2/jemalloc-5.1.0",
    }  # fmt: skip
    assert any("not interleaved" in warning for warning in document["warnings"])
    text = CliRunner().invoke(main, words, catch_exceptions=False).stdout
    assert "Not interleaved, so no verdict" in text
    markdown = CliRunner().invoke(main, [*words, "--format", "markdown"], catch_exceptions=False)
    for output in (text, markdown.stdout):
        assert "95 % interval" in output
        assert "paired by block" not in output
    page = tmp_path / "two.html"
    CliRunner().invoke(
        main, [*words, "--format", "html", "--output", str(page)], catch_exceptions=False
    )
    assert "not interleaved" in page.read_text()


@pytest.fixture
def two_nights(tmp_path):
    """A store with the same spec on two days."""
    for name, day in (("quickstart-20261120-220000", 20), ("quickstart-20261121-220000", 21)):
        shape = synthetic.Shape(
            blocks=6, discarded_block=None, seed=day, workloads=("append",), buckets=("ephemeral",)
        )
        synthetic.write(tmp_path, shape, name)
    with sqlite3.connect(tmp_path / "results.sqlite") as store:
        store.execute(
            "update experiments set created_at = '2026-11-21 22:00:00.000000' where id like '%20261121%'"
        )
    return tmp_path


def test_two_experiments_are_never_mixed(two_nights):
    """Blocks of the same number are not the same block."""
    words = ["compare", "20261120", "2026-11-21", "--variant", "glibc", "--out", str(two_nights)]
    text = CliRunner().invoke(main, [*words, "--format", "json"], catch_exceptions=False).stdout
    document = json.loads(text)
    names = {f"quickstart-202611{day}-220000/glibc" for day in (20, 21)}
    assert {row["variant"] for row in document["results"]} == names
    assert {row["n"] for row in document["results"]} == {6}
    assert document["trials"]["ok"] == 12
    assert set(document["facts"]["builds"]) == names


def test_each_run_of_a_comparison_is_reported_by_itself(two_nights):
    """Its commit, tools, date and state; not the second run's for both, and no command that measures one alone."""

    def source(name, sha):
        commit = {"commit": sha * 40, "title": name, "date": "2026-11-20"}
        return {
            "name": name,
            "sha256": sha * 64,
            "directory": "",
            "interface": 2,
            "revision": True,
        } | commit

    with open_store(two_nights, None) as store:
        for night, mine in (
            ("quickstart-20261120-220000", "a"),
            ("quickstart-20261121-220000", "b"),
        ):
            facts = dict(store.load(night).experiment.facts)
            facts["sources"] = {
                "variants": {
                    "glibc": source(f"{mine}-1", mine),
                    "jemalloc-5.1.0": source("x", "c"),
                },
                "tools": source(f"tools-{mine}", "d" if mine == "a" else "e"),
                "distances": {"jemalloc-5.1.0": {"ahead": 3, "files": 1, "added": 1, "removed": 1}},
            }
            facts["hosts"] = {"here": {"cpus": 2 if mine == "a" else 4}}
            facts["command"] = ["perfrunner", "run", f"{mine}.yaml"]
            store.set_facts(night, facts)
        store.set_state("quickstart-20261120-220000", "interrupted")
    words = ["compare", "20261120", "20261121", "--out", str(two_nights), "--format", "markdown"]
    page = CliRunner().invoke(main, words, catch_exceptions=False).stdout
    messages = " ".join(page.replace("`", "").replace("**", "").split())
    for printed in (
        "quickstart-20261120-220000/glibc: a-1: aaaaaaaaaaaa",
        "quickstart-20261121-220000/glibc: b-1: bbbbbbbbbbbb",
        "tools-a", "tools-b", "quickstart-20261120-220000/here (2 CPUs)",
        "quickstart-20261121-220000/here (4 CPUs)", "2026-11-21 22:00 UTC",
        "quickstart-20261120-220000 is interrupted: the comparison uses the blocks measured so far",
        "Reproduce: perfrunner compare 20261120 20261121",
    ):  # fmt: skip
        assert printed in messages, printed
    assert "ahead" not in messages
    assert ".yaml" not in messages[messages.index("Reproduce:") :]


def test_compare_leaves_the_runs_own_page_alone(two_nights):
    own = two_nights / "quickstart-20261121-220000" / "report.html"
    own.write_text("the run's own")
    words = ["compare", "20261120", "20261121", "--format", "html", "--out", str(two_nights)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert own.read_text() == "the run's own"
    assert (own.parent / "compare-20261120-20261121.html").is_file(), result.stderr


def test_compare_finds_builds_wherever_they_were_measured(two_nights):
    build = f"{synthetic.hash_of('glibc'):016x}"
    words = ["compare", build, "20261120", "--out", str(two_nights), "--format", "json"]
    document = json.loads(CliRunner().invoke(main, words, catch_exceptions=False).stdout)
    assert {row["variant"] for row in document["results"]} == {
        "quickstart-20261121-220000/glibc", "quickstart-20261120-220000/glibc",
    }  # fmt: skip


def test_compare_finds_two_builds_of_an_earlier_experiment(two_nights):
    """They are compared pairwise, as they would be in the latest experiment."""
    with sqlite3.connect(two_nights / "results.sqlite") as store:
        store.execute(
            "update builds set build_id = 'later-' || build_id where experiment_id like '%20261121%'"
        )
    builds = [f"{synthetic.hash_of(name):016x}" for name in ("glibc", "jemalloc-5.1.0")]
    words = ["compare", *builds, "--out", str(two_nights), "--format", "json"]
    document = json.loads(CliRunner().invoke(main, words, catch_exceptions=False).stdout)
    assert document["experiment"] == "quickstart-20261120-220000"
    rows = [row for row in document["results"] if row["metric"] == "ops_per_s"]
    assert {row["variant"] for row in rows} == {"glibc", "jemalloc-5.1.0"}
    assert any(row["verdict"] for row in rows)


@pytest.mark.parametrize("command", ["report", "compare"])
def test_help_has_examples(command):
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
