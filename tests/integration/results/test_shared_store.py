"""Results of several groups in one store, raw files by content next to it: on a file, and on a PostgreSQL server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from perfrunner.cli import main
from tests.integration.postgres import PASSWORD, raised_postgres
from tests.support.fakes import ROOT, spec_text
from tests.support.fleet import PERFRUNNER

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    raw = quote(str(tmp_path / "raw"))
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'all.sqlite'}?raw={raw}"
        return
    with raised_postgres() as server:
        yield f"{server.new_database()}&raw={raw}"


@dataclass
class Fleet:
    """Two groups, each with a spec and a results directory; the store is that of the environment."""

    directory: Path
    environment: dict[str, str]

    def run(self, group: str) -> None:
        """With fake builds and engines."""
        subprocess.run(
            [*PERFRUNNER, "run", f"{group}.yaml", "--out", group, "--quiet"], cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.environment}, check=True,
            timeout=300, capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def __call__(self, *words: str, code: int = 0) -> Result:
        """A command that does not measure, in this process."""
        done = CliRunner().invoke(main, words, env=self.environment)
        assert done.exit_code == code, done.output + repr(done.exception)
        assert PASSWORD not in done.output
        return done

    def experiments(self) -> list[dict[str, Any]]:
        listed = json.loads(self("list", "--out", "none", "--json").stdout)["experiments"]
        return list(listed)


@pytest.fixture
def fleet(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for group in "ab":
        (tmp_path / f"{group}.yaml").write_text(spec_text(tmp_path / group / "work", blocks=1))
    monkeypatch.chdir(tmp_path)
    places = {
        "PERFRUNNER_CACHE": str(tmp_path / "cache"),
        "PERFRUNNER_ENGINE_SRC": str(ROOT / "engine_src"),
    }
    return Fleet(tmp_path, {"PERFRUNNER_STORE": url, **places})


@pytest.mark.long
def test_two_groups_and_a_reader_elsewhere(fleet: Fleet, tmp_path: Path) -> None:
    """The reader has neither group's directory: a database and the directory of contents are all it needs."""
    for group in "ab":
        fleet.run(group)
        assert not (tmp_path / group / "results.sqlite").exists()
    (first, second) = fleet.experiments()
    assert {first["state"], second["state"]} == {"done"}
    assert {first["trials"]["ok"], second["trials"]["ok"]} == {2}
    page = tmp_path / "page.html"
    words = (second["experiment"], "--out", "none")
    text = fleet("report", *words, "--format", "html", "--output", str(page)).stderr
    assert "cannot be read" not in text + page.read_text()
    assert fleet("export", *words, "--table", "series").stdout.count("\n") > 4
    fleet("history", "ops_per_s", "--out", "none")
    fleet("site", "site", "--out", "a", "--out", "b")
    assert (tmp_path / "site" / "index.html").read_text().count("report.html") >= 2
    refused = fleet("run", "a.yaml", "--out", "a", "--resume", second["experiment"], code=2)
    assert "another results directory" in refused.stderr
    fleet("clean", "--results", second["experiment"], "--out", "b", "--yes")
    assert [e["experiment"] for e in fleet.experiments()] == [first["experiment"]]
    fleet("report", first["experiment"], "--out", "none", "--format", "html", "--output", str(page))
    fleet("clean", "--results", first["experiment"], "--out", "a", "--yes")
    assert not [path for path in (tmp_path / "raw").rglob("*") if len(path.name) == 64]
