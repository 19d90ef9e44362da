"""Servers that are built from a repository: a bisection over it, and what a night knows of its commits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perfrunner.analysis.nights import Suspicion
from perfrunner.build import builders
from perfrunner.build.artifact import Artifact
from perfrunner.cli import main
from perfrunner.cli.nightly import _histories
from perfrunner.cli.nightly_verify import direct_comparison
from perfrunner.spec.loader import load_spec
from perfrunner.spec.pair import spec_document
from tests.integration.servers.conftest import ServerLab, memcached

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# Without CAS an item is 8 bytes smaller. The server's own count of its items' bytes repeats exactly.
SMALL, LARGE, BROKEN = ' "$@" -C', ' "$@"', None


class Repository:
    """Its server is a script that starts memcached; a commit with BROKEN does not build."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git("init", "-q", "-b", "main")
        self.commits: list[str] = []

    def _git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        self.path.mkdir(exist_ok=True)
        return subprocess.run(
            ["git", "-C", str(self.path), *who, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, words: str | None) -> str:
        real = memcached()["server"]["command"][0]
        number = len(self.commits)
        text = "exit 1" if words is None else f"#!/bin/sh\n# {number}\nexec {real}{words}\n"
        (self.path / "server.in").write_text(text)
        self._git("add", ".")
        self._git("commit", "-q", "-m", f"change {number}")
        self.commits.append(self._git("rev-parse", "HEAD"))
        return self.commits[-1]

    def server(self) -> dict[str, Any]:
        build = [["grep", "-q", "exec", "server.in"], ["install", "-D", "server.in", "bin/server"]]
        command = ["bin/server", "-p", "{port}"]
        return {
            "git": str(self.path), "kind": "memcached", "build": build, "command": command,
        }  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.mark.long
def test_the_commit_that_made_items_larger_is_found(
    servers: ServerLab, repository: Repository, monkeypatch: pytest.MonkeyPatch
):
    for words in (SMALL, SMALL, BROKEN, LARGE, LARGE):
        repository.commit(words)
    servers.write({"mine": {"server": repository.server()}}, {"duration": 0.2}, blocks=6)
    tools = Artifact("realbuild", Path(servers.artifact), {}, True, 0.0)
    monkeypatch.setattr(builders, "build_variant", lambda *_: tools)
    done = CliRunner().invoke(
        main,
        [
            "bisect", str(servers.spec_path), "--good", repository.commits[0], "--bad", "main",
            "--metric", "mem_used_bytes", "--out", str(servers.out), "--cache", str(servers.directory / "cache"),
            "--json",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    shown = done.stderr.splitlines()
    first = f"build  good-{repository.commits[0][:12]}"
    assert shown.index(f"{first} ...") < shown.index(next(x for x in shown if x.startswith("plan")))
    assert any(line.startswith(f"{first} ") and "cached" not in line for line in shown[1:])
    results = json.loads(done.stdout)
    assert results["culprits"] == [repository.commits[3], repository.commits[2]], results["finding"]
    steps = {step["commit"]: step for step in results["steps"]}
    assert steps[repository.commits[4]]["verdict"] == "worse"
    broken = steps[repository.commits[2]]
    assert (broken["outcome"], broken["experiment"]) == ("skip", None)
    assert broken["why"].startswith("does not build")


@pytest.mark.long
def test_a_night_knows_the_commits_and_compares_two_of_them(
    servers: ServerLab, repository: Repository
):
    good = repository.commit(SMALL)
    servers.write({"mine": {"server": repository.server()}, "stock": memcached()})
    assert servers.measure()[0] == 0
    bad = repository.commit(LARGE)
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    (history, *_) = _histories(servers.out, "fake")
    (series,) = (single for single in history.series if single.variant == "mine")
    assert [(run.commit, run.title) for run in series.runs] == [
        (good[:12], "change 0"),
        (bad[:12], "change 1"),
    ]

    suspicion = Suspicion(series, good[:12], bad[:12])
    direct = direct_comparison(load_spec(servers.spec_path), suspicion)
    servers.spec_path.write_text(spec_document(direct.model_copy(update={"blocks": 1})))
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    titles = {b.variant: b.provenance["server"]["title"] for b in servers.data().builds}
    assert titles == {f"good-{good[:12]}": "change 0", bad[:12]: "change 1"}
