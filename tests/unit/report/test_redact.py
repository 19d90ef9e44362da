"""A report that is passed on has no addresses, users, key paths or homes in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from perfrunner.report import build_report, render, write_html
from perfrunner.report.redact import redacted

SECRETS = (
    "10.1.2.3",
    "db7.corp.example",
    "alice",
    "/home/alice",
    "id_ed25519",
    "fd00::17",
    "vm-4711",
    "maker-9",
)


@pytest.fixture
def revealing(make):
    data = make(blocks=1, workloads=("append",), buckets=("ephemeral",), void_block=None)
    hosts = {
        "node": {"address": "10.1.2.3", "user": "alice", "key": "/home/alice/.ssh/id_ed25519"},
        "load": {
            "address": "db7.corp.example",
            "user": "alice",
            "known_hosts": "/home/alice/hosts",
        },
        "six": {"address": "fd00::17", "user": "alice"},
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
            "command": ["perfrunner", "run", "/home/alice/specs/quickstart.yaml"],
            "changes": ["alice@10.1.2.3: kernel changed on db7.corp.example"],
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
            },
        )
        for b in data.builds
    )
    bad = replace(
        data.trials[0], status="failed", reason="ssh alice@db7.corp.example: no route to 10.1.2.3"
    )
    return replace(data, experiment=experiment, builds=builds, trials=(bad, *data.trials[1:]))


@pytest.mark.parametrize("fmt", ["markdown", "commit", "json", "html"])
def test_nothing_of_it_is_left(revealing, fmt, tmp_path):
    data = redacted(revealing)
    report = build_report(data)
    page = tmp_path / "r.html"
    text = write_html(report, data, page).read_text() if fmt == "html" else render(report, fmt)
    text = re.sub(
        r"<script>.*?</script>", "", text, flags=re.DOTALL
    )  # names of colours, among others
    assert [secret for secret in SECRETS if secret in text] == []
    assert "~/specs/quickstart.yaml" in text
    if fmt != "commit":
        assert "EPYC" in text


def test_what_is_compared_stays(revealing):
    before, after = build_report(revealing), build_report(redacted(revealing))
    assert after.headline == before.headline
    results = [json.loads(render(report, "json"))["results"] for report in (before, after)]
    assert results[0] == results[1]


def test_what_holds_no_secrets_is_not_changed(data):
    hidden = redacted(data)
    assert hidden.experiment == data.experiment
    assert hidden.trials == data.trials
