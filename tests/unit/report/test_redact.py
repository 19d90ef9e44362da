"""A report that is passed on has no addresses, users, key paths or homes in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner

from perfrunner.bisect.search import BisectState, Step
from perfrunner.cli import main
from perfrunner.report import build_report, render, write_html
from perfrunner.report.bisect import markdown, redacted_state
from perfrunner.report.redact import hidden, redacted
from perfrunner.results import ResultStore
from tools.writeups.archive import archive_bytes, read_archive

SECRETS = (
    "10.1.2.3",
    "db7.corp.example",
    "alice",
    "/home/alice",
    "id_ed25519",
    "fd00::17",
    "vm-4711",
    "maker-9",
    "2001:db8::5",
    "s3cret",
    "bench.pem",
    "/srv/people",
)
LEAKY = (
    "ssh alice@db7.corp.example: no route to 10.1.2.3 or [2001:db8::5]:22; git https://alice:s3cret@git.example/x;"
    " ssh://alice@10.1.2.3:2222; sudo: alice is not allowed; no key /opt/bench.pem, /srv/people/alice/.ssh/id_ed25519;"
    " -I/home/alice/include:/var/home/alice/x,/home/alice"
)


@pytest.fixture
def revealing(make):
    data = make(blocks=1, workloads=("append",), buckets=("ephemeral",), discarded_block=None)
    hosts = {
        "node": {"address": "10.1.2.3", "user": "alice", "key": "/home/alice/.ssh/id_ed25519"},
        "load": {
            "address": "db7.corp.example",
            "user": "alice",
            "known_hosts": "/home/alice/hosts",
        },
        "six": {"address": "fd00::17", "user": "alice", "key": "/opt/bench.pem"},
    }
    experiment = replace(
        data.experiment,
        spec_json={**data.experiment.spec_json, "cluster": {"hosts": hosts}},
        spec_text="hosts:\n  node: {address: 10.1.2.3, user: alice, key: /home/alice/.ssh/id_ed25519}\n"
        "  load: {address: db7.corp.example}\n  six: {address: fd00::17}\n",
        spec_path="/home/alice/specs/quickstart.yaml",
        facts={
            **data.experiment.facts,
            "hosts": {"node": {"hostname": "vm-4711", "cpu_model": "EPYC", "kernel": "6.1.0-28"}},
            "command": [
                "perfrunner",
                "run",
                "/home/alice/specs/quickstart.yaml",
                "--set",
                "cluster.hosts.node.user=alice",
                "--set",
                "cluster.hosts.load.address=db7.corp.example",
            ],
            "changes": ["alice@10.1.2.3: kernel changed on db7.corp.example"],
            "sampling_check": [
                {
                    "workload": "append",
                    "bucket": "ephemeral",
                    "variant": "glibc",
                    "status": "failed",
                    "reason": LEAKY,
                    "sampled": {},
                    "bare": {},
                }
            ],
        },
    )
    builds = tuple(
        replace(
            b,
            path="/home/alice/.cache/x",
            provenance={
                "source": {"directory": "/home/alice/src"},
                "built_on": "maker-9 Linux-6.1.0-28-amd64",
                "build_host": "maker",
                "argv": ["/home/alice/bin/g++", LEAKY],
            },
            settings={"log": "/home/alice/log", "said": LEAKY},
        )
        for b in data.builds
    )
    bad = replace(data.trials[0], status="failed", reason=LEAKY)
    messages = tuple(
        replace(
            trial,
            facts={
                **trial.facts,
                "note": LEAKY,
                "environment": {"HOME": "/home/alice", "SSH_CONNECTION": LEAKY},
                "argv": ["/home/alice/bin/engine", LEAKY],
                "last_words": LEAKY,
            },
        )
        for trial in (bad, *data.trials[1:])
    )
    return replace(data, experiment=experiment, builds=builds, trials=messages)


@pytest.fixture
def two_machines(revealing, tmp_path):
    """The same spec on two machines that differ by their names alone, and a third run on the second."""
    with ResultStore.open(tmp_path / "two") as store:
        for number, machine in enumerate(("vm-4711", "vm-4712", "vm-4712")):
            record = revealing.experiment
            record = replace(
                record,
                id=f"run-{number}",
                created_at=record.created_at + timedelta(days=number),
                facts={**record.facts, "hosts": {"node": {"hostname": machine, "cpus": 2}}},
            )
            store.create_experiment(record)
            store.add_trials(record.id, [t for t in revealing.trials if t.status == "ok"])
            store.set_state(record.id, "done")
    return tmp_path / "two"


def test_two_machines_are_distinguished_without_their_names(two_machines):
    def output(*words):
        return told_by(words, two_machines)

    compared = output("compare", "run-0", "run-1", "--variant", "jemalloc-5.1.0")
    assert re.search(
        r"host node hostname: …[0-9a-f]{3} or …[0-9a-f]{3}", " ".join(compared.split())
    )
    assert "hostname" not in output("compare", "run-1", "run-2", "--variant", "jemalloc-5.1.0")
    for words in (["history"], ["history", "--json"]):
        messages = output(*words)
        assert "hostname: …" in messages
        assert "vm-47" not in messages
    assert "vm-4711" in output("history", "--with-hosts")


@pytest.fixture
def revealing_store(revealing, tmp_path):
    with ResultStore.open(tmp_path / "home" / "alice" / "kept") as store:
        store.create_experiment(revealing.experiment)
        for build in revealing.builds:
            store.add_build(revealing.experiment.id, build)
        store.add_trials(revealing.experiment.id, revealing.trials)
    return tmp_path / "home" / "alice" / "kept"


def left_in(text):
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("fmt", ["terminal", "markdown", "commit", "json", "html"])
def test_nothing_of_it_is_left(revealing, fmt, tmp_path):
    data = redacted(revealing)
    report = build_report(data)
    page = tmp_path / "r.html"
    if fmt == "html":
        text = write_html(report, data, page).read_text()
    else:
        text = render(report, fmt, every=True, verbose=True)
    # Scripts hold names of colours, among others.
    text = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert left_in(text) == []
    assert "~/specs/quickstart.yaml" in text
    if fmt != "commit":
        assert "EPYC" in text


@pytest.mark.parametrize(
    "words",
    [
        ["report"],
        ["report", "--verbose", "--all"],
        ["report", "--format", "markdown"],
        ["report", "--format", "commit", "--all"],
        ["report", "--format", "json"],
        ["compare", "glibc", "jemalloc-5.1.0", "--verbose"],
        ["export"],
        ["show", "--trials"],
        ["show", "--json"],
    ],
    ids=" ".join,
)
def test_no_command_tells_it_unless_asked_to(revealing_store, words):
    assert left_in(told_by(words, revealing_store)) == []
    assert "alice" in told_by([*words, "--with-hosts"], revealing_store)


def test_what_cannot_be_read_is_reported_without_its_place(revealing_store):
    """The trials' raw files are gone."""
    for words in (["export", "--table", "series"], ["export", "--table", "rounds"]):
        assert left_in(told_by(words, revealing_store)) == []


def told_by(words, store):
    """On stdout and stderr."""
    result = CliRunner().invoke(main, [*words, "--out", str(store)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout + result.stderr


def test_files_that_are_passed_on_have_none_of_it(revealing, revealing_store, tmp_path):
    words = ["export", "--to", str(tmp_path / "tables"), "--out", str(revealing_store)]
    assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    assert left_in((tmp_path / "tables" / "trials.csv").read_text()) == []
    kept = tmp_path / "kept.json.gz"
    kept.write_bytes(archive_bytes([redacted(revealing)]))
    assert left_in(repr(read_archive(kept))) == []


def test_lines_of_which_nothing_else_is_known_have_no_address_login_or_home():
    text = hidden(LEAKY.replace("sudo: alice is not allowed", "").replace("/opt/bench.pem", ""))
    assert left_in(text) == []
    assert "~/include:~/x,~" in text


def test_long_words_stay():
    word = "x" * 200_000  # whose cost would be quadratic: the test's time-out
    assert hidden(f"{word} /srv/people/alice/.ssh/id {word}") == f"{word} … {word}"


def test_why_a_bisection_skipped_a_commit_has_none_of_it():
    why = LEAKY.replace("sudo: alice is not allowed", "").replace("/opt/bench.pem", "")
    state = BisectState("s", "ops_per_s", "a" * 40, "b" * 40, [Step("b" * 40, "t", "skip", why)])
    shown = redacted_state(state)
    assert left_in(markdown(shown, "found", "c.svg")) == []
    assert state.steps[0].why == why  # what is kept stays


@pytest.mark.parametrize(
    "text",
    [
        "allocator jemalloc 5.1.0, kernel 6.1.0-28, std::vector<int>, at 12:30:45, libfoo.so.1.2.3",
        "perf stat -e cycles:u; a::b and dead::beef; user time 1.2 s; 127.0.0.1:11210; ::1; 3 misses",
        "KEY=AB_000000000001_0 items 100000 [0.5, 1.5]",
    ],
)
def test_words_that_only_look_like_it_stay(text):
    assert hidden(text) == text


def test_what_is_compared_stays(revealing):
    before, after = build_report(revealing), build_report(redacted(revealing))
    assert after.headline == before.headline
    results = [json.loads(render(report, "json"))["results"] for report in (before, after)]
    assert results[0] == results[1]


def test_what_holds_no_secrets_is_not_changed(data):
    hidden = redacted(data)
    assert hidden.experiment == data.experiment
    assert hidden.trials == data.trials


def test_a_repository_with_a_revision_is_no_login(revealing):
    """Else the command that repeats a comparison of two revisions cannot be used."""
    command = ["perfrunner", "ab", "redis@7.2", "the servers/my redis@main", "alice@7.2"]
    servers = {
        name: {"server": {"command": ["./srv", "{port}"], "git": git, "revision": revision}}
        for name, git, revision in (
            ("a", "/r/redis", "7.2"),
            ("b", "/r/the servers/my redis", "main"),
        )
    }
    record = revealing.experiment
    record = replace(
        record,
        spec_json={**record.spec_json, "variants": servers},
        facts={**record.facts, "command": command},
    )
    shown = redacted(replace(revealing, experiment=record)).experiment.facts["command"]
    assert shown == [*command[:4], "…@…"]


@pytest.mark.parametrize("name", ["vm-4711", "alice", "1.6.38.1", "memcached-1.6.38.1"])
def test_a_variant_that_is_called_like_a_host_or_an_address_keeps_its_name(revealing, name):
    """`perfrunner ab dev my-branch` on a machine called dev: a report needs the name, and shows it."""

    def renamed(of):
        return name if of == "glibc" else of

    spec = dict(revealing.experiment.spec_json)
    spec["variants"] = {renamed(of): what for of, what in spec["variants"].items()}
    spec["baseline"] = name
    spec["expected_gains"] = [
        {
            "variant": "jemalloc-5.1.0",
            "against": name,
            "metric": "ops_per_s",
            "at_least": "1%",
            "workload": "append",
            "bucket": "ephemeral",
        }
    ]
    data = redacted(
        replace(
            revealing,
            experiment=replace(revealing.experiment, spec_json=spec),
            builds=tuple(replace(b, variant=renamed(b.variant)) for b in revealing.builds),
            trials=tuple(replace(t, variant=renamed(t.variant)) for t in revealing.trials),
        )
    )
    assert data.experiment.spec_json["baseline"] == name
    assert data.experiment.spec_json["expected_gains"][0]["against"] == name
    assert data.experiment.facts["hosts"]["node"]["hostname"].startswith("…")
    assert build_report(data).comparison.baseline == name
