"""`doctor` on this machine, and on hosts that cannot be reached."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from perfrunner.experiment.preflight import health

UNREACHABLE = """\
name: far
transport: ssh
hosts: {{far: {{address: 127.0.0.1, port: {port}, known_hosts: {known}, work_dir: {work}}}}}
engine_nodes: [far]
load_clients: [far]
"""


@pytest.fixture(autouse=True)
def briefly(monkeypatch):
    monkeypatch.setattr(health, "WATCH_S", 0.05)


@pytest.fixture
def here(cli, tmp_path):
    """A cluster file of this machine with a work directory of its own."""
    path = tmp_path / "here.yaml"
    path.write_text(
        "name: here\ntransport: local\nhosts: {here: {work_dir: %s}}\n"
        "engine_nodes: [here]\nload_clients: [here]\n" % (tmp_path / "work")
    )
    return path


def test_this_machine_is_examined(cli, here):
    document = cli.json("doctor", "--cluster", here)
    assert document["counts"]["problem"] == 0
    results = {(f["place"], f["subject"]): f for f in document["findings"]}
    assert results["this machine", "build tools"]["grade"] == "ok"
    for subject in ("reached", "free", "other work", "stolen time", "clock", "disk"):
        assert ("here", subject) in results, subject
    assert results["here", "clock"]["grade"] == "ok"
    table = cli("doctor", here)
    assert "build tools" in table.stdout
    assert "0 problem" in table.stderr


def test_a_spec_adds_what_it_needs(cli, here):
    document = cli.json(
        "doctor", "spec.yaml", "--cluster", here, "--set", "engine.quota_mb=90000000",
        "--set", "preconditions=[thp_madvise]",
    )  # fmt: skip
    results = {(f["place"], f["subject"]): f for f in document["findings"]}
    assert results["spec small", "memory"]["grade"] == "warning"
    madvise = "[madvise]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    subject, grade = ("thp_madvise", "ok") if madvise else ("preconditions", "warning")
    assert results["spec small", subject]["grade"] == grade


def test_a_profile_of_the_spec_is_what_is_looked_at(cli, here):
    with Path("spec.yaml").open("a") as spec:
        spec.write("profiles: {huge: {engine: {quota_mb: 90000000}}}\n")
    grades = []
    for profile in ((), ("--profile", "huge")):
        document = cli.json("doctor", "spec.yaml", "--cluster", here, *profile)
        (memory,) = [f for f in document["findings"] if f["subject"] == "memory"]
        grades.append(memory["grade"])
    assert grades == ["ok", "warning"]


def test_a_workload_of_the_sdk_needs_it_on_the_load_clients(cli, here):
    changes = ("--set", "workloads={app: {type: sdk, items: 10}}")
    words = ("doctor", "spec.yaml", "--cluster", here, *changes)
    results = {f["subject"]: f for f in cli.json(*words)["findings"] if f["place"] == "here"}
    assert results["couchbase SDK"]["grade"] == "ok"
    lacks = cli.json(*words, "--set", "client.python=/bin/false", code=3)
    (problem,) = [f for f in lacks["findings"] if f["grade"] == "problem"]
    assert (problem["place"], problem["subject"]) == ("here", "couchbase SDK")
    assert "client.python=" in problem["remedy"]


def test_a_spec_that_asks_for_profiles_needs_perf(cli, here, monkeypatch):
    from perfrunner.measure import cpu_profile as perf

    monkeypatch.setattr(perf, "PROGRAM", "/nowhere/perf")
    words = ("doctor", "spec.yaml", "--cluster", here, "--set", "workloads.pf.profile=perf")
    results = {(f["place"], f["subject"]): f for f in cli.json(*words, code=3)["findings"]}
    assert results["here", "perf"]["grade"] == "problem"
    assert results["here", "perf"]["text"] == "perf is not installed"
    assert results["here", "perf"]["remedy"].startswith("apt-get install linux-perf")


def test_cpus_that_the_spec_names_are_looked_for(cli, here):
    words = ("doctor", "spec.yaml", "--cluster", here, "--set", "client.cpus=9000")
    document = cli.json(*words, "--set", f"engine.cpus={min(os.sched_getaffinity(0))}", code=3)
    results = {
        f["text"].split()[0]: f for f in document["findings"] if f["subject"] == "named CPUs"
    }
    assert {key: f["grade"] for key, f in results.items()} == {
        "engine.cpus": "ok", "client.cpus": "problem",
    }  # fmt: skip


def test_a_host_in_use_is_a_problem(cli, here, tmp_path):
    from perfrunner.hosts import open_host
    from perfrunner.spec.loader import load_cluster

    spec = load_cluster(here).hosts["here"]
    with open_host(spec, "local", name="here", run_id="somebody") as host:
        host.lock()
        document = cli.json("doctor", "--cluster", here, code=3)
    (problem,) = [f for f in document["findings"] if f["grade"] == "problem"]
    assert problem["subject"] == "free"
    assert "somebody" in problem["text"]


def test_a_host_that_cannot_be_reached_is_a_problem(cli, tmp_path):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        path = tmp_path / "far.yaml"
        path.write_text(
            UNREACHABLE.format(
                port=taken.getsockname()[1], known=tmp_path / "known_hosts", work=tmp_path / "work"
            )
        )
        document = cli.json("doctor", "--cluster", path, code=3)
    (problem,) = [f for f in document["findings"] if f["grade"] == "problem"]
    assert (problem["place"], problem["subject"]) == ("far", "reached")
    assert problem["remedy"]


def test_directories_that_cannot_be_written_are_problems(cli, here, monkeypatch):
    (cli.directory / "file").touch()
    monkeypatch.setenv("PERFRUNNER_CACHE", str(cli.directory / "file" / "cache"))
    monkeypatch.setenv("TMPDIR", str(cli.directory / "gone"))
    results = {f["subject"]: f for f in cli.json("doctor", here, code=3)["findings"]}
    assert results["TMPDIR"]["grade"] == results["build cache"]["grade"] == "problem"
    assert "mkdir -p" in results["TMPDIR"]["remedy"]
    assert "--cache DIR" in results["build cache"]["remedy"]
