"""Running commands in a directory with a small valid spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perfrunner.cli import main, nightly
from tests.support.nights import ONCE, Nights

SPEC = """\
name: small
cluster: {name: c, transport: local, hosts: {h: {}}, engine_nodes: [h], load_clients: [h]}
baseline: glibc
variants:
  glibc: {allocator: {name: system}}
matrix:
  base: {allocator: {name: jemalloc-5.1.0}}
  axes: {allocator.options.metadata_thp: [auto, always], params.ht_size: [3]}
workloads:
  pf: {type: pillowfight, items: 10k, duration: 5s}
  ap: {type: append, items: 10k}
blocks: 2
"""


class Cli:
    """The command line; `cli("plan", "spec.yaml")`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "spec.yaml").write_text(SPEC)

    def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, [str(w) for w in words], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).stdout)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFRUNNER_ENGINE_SRC", raising=False)
    monkeypatch.delenv("PERFRUNNER_OUT", raising=False)
    monkeypatch.setenv("PERFRUNNER_CACHE", str(tmp_path / "cache"))
    return Cli(tmp_path)


@pytest.fixture
def nights(cli, monkeypatch):
    played = Nights(cli.directory)
    spec = cli.directory / "spec.yaml"  # nothing of this machine's own host directory
    spec.write_text(spec.read_text().replace("h: {}", f"h: {{work_dir: {cli.directory}/work}}"))
    monkeypatch.setattr(nightly, "run_spec", played)
    return played


@pytest.fixture
def night(nights):
    """night(gain or exit code, code): what the night printed. Without a code it is 1 where something is worse."""

    def play(what, code=0, *words):
        nights.next = what
        result = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE, *words])
        expected = (1 if "worse" in result.stdout else 0) if code is None else code
        assert result.exit_code == expected, result.output
        return result.stdout

    return play


@pytest.fixture
def followed(nights, cli):
    """followed(gain, code, words): as `night`, with verification and a commit for each night, after two quiet weeks."""
    nights.commits = True
    spec = cli.directory / "spec.yaml"
    glibc = "  glibc: {allocator: {name: system}}\n"
    je = "  je: {allocator: {name: jemalloc-5.1.0}}\n"
    spec.write_text(spec.read_text().replace(glibc, glibc + je))

    def play(what, code=0, *words):
        nights.next = what
        result = CliRunner().invoke(main, ["nightly", "spec.yaml", *words])
        expected = (1 if "worse" in result.stdout else 0) if code is None else code
        assert result.exit_code == expected, result.output
        return result.stdout

    nights.earlier(*[0.05] * 13)
    assert play(0.05) == ""
    nights.compared.clear()
    return play
