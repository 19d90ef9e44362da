"""`clean`, `list` and `show` over a store with two experiments."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from perfrunner.build.cache import in_use
from perfrunner.cli import clean
from perfrunner.experiment.outdir import OutDirLock
from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord
from perfrunner.spec.loader import load_spec

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.fixture
def out(cli):
    """Two experiments; the first has an ok trial of 20 s and a discarded one."""
    out = cli.directory / "perfrunner-results"
    out.mkdir()
    spec = load_spec(cli.directory / "spec.yaml")
    with ResultStore.open(out) as store:
        for i in (1, 2):
            directory = out / f"small-{i}" / "trials"
            directory.mkdir(parents=True)
            (directory / "engine.log").write_text("x" * 1000)
            store.create_experiment(
                ExperimentRecord(
                    f"small-{i}", "small", spec.model_dump(mode="json"), "text", "spec.yaml", 7,
                    START + timedelta(hours=i), "0.1.0", state="done",
                )
            )  # fmt: skip
        for attempt, status in ((1, "discarded"), (2, "ok")):
            store.add_trial(
                "small-1",
                TrialRecord(
                    1, attempt, 1, "pf", "persistent", "glibc", "b1", status,
                    "3 misses" if status == "discarded" else "",
                    START, START + timedelta(seconds=20), {"ops_per_s": 5.0}, {}, f"small-1/trials/{attempt}",
                ),
            )  # fmt: skip
    return out


@pytest.fixture
def no_hosts(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "perfrunner.spec.cluster.DEFAULT_WORK_DIR", str(tmp_path / "absent" / "work")
    )


def cache(cli):
    directory = cli.directory / "cache"
    (directory / "artifacts").mkdir(parents=True)
    (directory / "artifacts" / "a").write_text("x" * 500)
    (directory / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    return directory


def test_list(cli, out):
    text = cli("list").stdout
    assert [line.split()[0] for line in text.splitlines()] == ["experiment", "small-1", "small-2"]
    rows = cli.json("list")["experiments"]
    assert rows[0]["trials"] == {"ok": 1, "discarded": 1, "failed": 0}
    assert rows[0]["state"] == "done"


@pytest.mark.parametrize("words", [("list",), ("show", "small-1", "--trials")])
def test_a_narrow_table_cuts_nothing_that_another_command_needs(cli, out, monkeypatch, words):
    with ResultStore.open(out) as store:
        record = store.load("small-1").experiment
        store.create_experiment(replace(record, id=f"{'long-' * 15}1"))
    monkeypatch.setenv("COLUMNS", "60")
    assert "…" not in cli(*words).stdout


def test_a_reason_with_brackets_is_shown_as_it_is(cli, out):
    with ResultStore.open(out) as store:
        trial = store.load("small-1").trials[0]
        store.add_trial("small-1", replace(trial, block=2, reason="exit 1: [warn] [/data] is full"))
    assert "[warn] [/data] is full" in cli("show", "small-1", "--trials").stdout


def test_list_without_results_is_an_error_with_a_hint(cli):
    assert "hint:" in cli("list", code=3).stderr
    assert not (cli.directory / "perfrunner-results").exists()


def test_show(cli, out):
    text = cli("show", "small-1", "--trials").stdout
    assert "1 ok, 1 discarded, 0 failed" in text
    assert "discarded: 3 misses" in text
    assert "small-2" in cli("show").stdout
    assert cli.json("show", "small-1")["experiment"]["seed"] == 7
    assert "no experiment 'small-3'" in cli("show", "small-3", code=2).stderr


def test_show_verifies_the_raw_files(cli, out):
    directory = out / "small-1" / "trials" / "2"
    directory.mkdir()
    (directory / "client.json").write_text("17")
    with ResultStore.open(out) as store:
        store.keep_raw("small-1", "small-1/trials/2", directory)
    text = cli("show", "small-1", "--verify").stdout
    assert "1 intact" in text
    assert "not recorded for 1 trial" in text
    assert cli.json("show", "small-1", "--verify")["verified"]["intact"] == 1
    (directory / "client.json").write_text("18")
    failed = cli("show", "small-1", "--verify", code=3)
    assert "small-1/trials/2/client.json is damaged" in failed.stderr


def test_a_plan_uses_what_was_measured(cli, out):
    text = cli("plan", "spec.yaml").stdout
    assert "20 s (measured before)" in text
    assert "(guess)" in text  # append was never run
    changed = cli("plan", "spec.yaml", "--set", "workloads.pf.items=99k").stdout
    assert "measured before" not in changed


def test_clean_removes_the_cache_and_no_results(cli, out, no_hosts):
    directory = cache(cli)
    assert "removed build cache" in cli("clean", "--yes").stdout
    assert not directory.exists()
    assert (out / "small-1").is_dir()
    assert len(cli.json("list")["experiments"]) == 2


def test_clean_asks_first(cli, no_hosts):
    directory = cache(cli)
    error = cli("clean", code=2, stdin="y\n").stderr  # no terminal to ask on
    assert "build cache" in error
    assert "add --yes" in error
    assert directory.exists()


@pytest.mark.parametrize(("answer", "kept"), [("y\n", False), ("n\n", True), ("\n", True)])
def test_the_answer_counts(cli, no_hosts, monkeypatch, answer, kept):
    directory = cache(cli)
    monkeypatch.setattr(clean, "_is_terminal", lambda: True)
    cli("clean", code=2 if kept else 0, stdin=answer)
    assert directory.exists() is kept


def test_clean_does_not_remove_a_directory_that_is_no_cache(cli, no_hosts):
    precious = cli.directory / "cache"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x")
    assert "is not a build cache" in cli("clean", "--yes", code=2).stderr
    assert (precious / "thesis.tex").exists()


def test_clean_with_nothing_to_do(cli, no_hosts):
    assert "nothing to remove" in cli("clean").stderr


def test_results_are_removed_by_their_full_id_only(cli, out):
    assert "no experiment small in" in cli("clean", "--results", "small", "--yes", code=2).stderr
    document = cli.json("clean", "--results", "small-1", "--yes")
    assert document["removed"][0]["bytes"] == 1000
    assert not (out / "small-1").exists()
    assert [e["experiment"] for e in cli.json("list")["experiments"]] == ["small-2"]
    assert (out / "small-2").is_dir()


def test_results_of_a_directory_in_use_stay(cli, out):
    with OutDirLock(out):
        assert "in use" in cli("clean", "--results", "small-1", "--yes", code=2).stderr
    assert (out / "small-1").is_dir()


def test_a_hosts_leftovers_are_removed(cli, tmp_path):
    work = tmp_path / "a" / "work"
    (work / "artifacts" / "b1").mkdir(parents=True)
    (work / "build" / "trees").mkdir(parents=True)
    (work / "keep").mkdir()
    (cli.directory / "c.yaml").write_text(
        f"name: c\ntransport: local\nhosts: {{h: {{work_dir: {work}}}}}\nengine_nodes: [h]\nload_clients: [h]\n"
    )
    cli("clean", "--cluster", "c.yaml", "--yes")
    assert not (work / "artifacts").exists()
    assert not (work / "build").exists()
    assert (work / "keep").exists()


def test_a_cache_with_a_build_at_work_stays(cli, no_hosts):
    directory = cache(cli)
    lock = directory / "trees" / "0123.lock"
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "a build is using" in cli("clean", "--yes", code=2).stderr
    assert (directory / "artifacts" / "a").exists()
    cli("clean", "--yes")
    assert not directory.exists()


def test_a_cache_that_a_run_needs_stays(cli, no_hosts):
    """Each block is linked again from it: without it the run would end in the middle."""
    directory = cache(cli)
    with in_use(directory), in_use(directory):
        assert "a run is using" in cli("clean", "--yes", code=2).stderr
    assert (directory / "artifacts" / "a").exists()
    cli("clean", "--yes")
    assert not directory.exists()


def test_clean_keeps_what_was_used_last(cli, no_hosts):
    directory = cache(cli)
    (directory / "artifacts" / "a").unlink()
    for name in ("links", "objects", "logs"):
        (directory / name).mkdir()
    for age, build in enumerate(("new", "old", "older")):
        (directory / "artifacts" / build).mkdir()
        (directory / "artifacts" / build / "bin").write_text("x" * 1000 * (age + 1))
        os.utime(directory / "artifacts" / build, (1e9 - age, 1e9 - age))
        sums = {"own.o": f"of-{build}", "shared.o": "of-all"}
        for sum_of in sums.values():
            (directory / "objects" / f"{sum_of}.o").write_text("x")
        link = {"argv": [], "kept": sums, "outside": {}}
        document = {"schema": 1, "programs": {"p": link}}
        (directory / "links" / f"{build}.json").write_text(json.dumps(document))
    messages = cli("clean", "--builds", "--keep", "1", code=2).stderr
    assert "artifact older in" in messages
    assert "last used 2001-09-09 01:46 (3.0 kB)" in messages
    assert len(list((directory / "artifacts").iterdir())) == 3, "shown first, then asked"
    cli("clean", "--builds", "--keep", "1", "--yes")
    assert [path.name for path in (directory / "artifacts").iterdir()] == ["new"]
    assert {path.name for path in (directory / "objects").iterdir()} == {"of-new.o", "of-all.o"}
    assert "nothing to remove" in cli("clean", "--builds", "--keep", "1", "--yes").stderr


def test_copies_of_sources_go_when_nothing_used_them_for_long(cli, no_hosts):
    directory = cache(cli)
    now = time.time()
    for name, days in (("lately", 29), ("old", 31), (".export.killed", 400)):
        copy = directory / "sources" / name
        copy.mkdir(parents=True)
        (copy / "main.cc").write_text("x" * 1000)
        os.utime(copy, (now - days * 86400,) * 2)
    messages = cli("clean", "--builds", "--keep", "9", code=2).stderr
    assert "2 copies of sources in" in messages
    assert "not used for 30 days (2.0 kB)" in messages
    with in_use(directory):
        assert "a run is using" in cli("clean", "--builds", "--keep", "9", "--yes", code=2).stderr
    assert len(list((directory / "sources").iterdir())) == 3
    cli("clean", "--builds", "--keep", "9", "--yes")
    assert [path.name for path in (directory / "sources").iterdir()] == ["lately"]


def test_clean_keeps_what_was_used_last_on_a_host(cli, monkeypatch, tmp_path):
    work = tmp_path / "host" / "work"
    monkeypatch.setattr("perfrunner.spec.cluster.DEFAULT_WORK_DIR", str(work))
    for age, build in enumerate(("new", "old")):
        (work / "artifacts" / build).mkdir(parents=True)
        (work / "artifacts" / build / "engine").write_text("x" * 100_000)
        os.utime(work / "artifacts" / build, (1e9 - age, 1e9 - age))
    (work / "runs" / "r").mkdir(parents=True)
    messages = cli("clean", "--hosts", "--keep", "1", code=2).stderr
    assert f"1 artifacts in {work} on here (1" in messages
    cli("clean", "--hosts", "--keep", "1", "--yes")
    assert [path.name for path in (work / "artifacts").iterdir()] == ["new"]
    cli("clean", "--hosts", "--yes")
    assert not (work / "artifacts").exists() or not list((work / "artifacts").iterdir())
    assert not (work / "runs").exists()
