"""`perfrunner run` itself, with the fake build and proof: what a user sees at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perfrunner.cli import main
from perfrunner.run.preflight import builds
from tests.support.driver import fakes
from tests.support.fakes import ROOT, Lab

pytestmark = pytest.mark.integration


def invoke(lab: Lab, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    build, prove = fakes({})
    monkeypatch.setattr(builds, "build_variant", build)
    monkeypatch.setattr(builds, "prove", prove)
    words = [
        "run", str(lab.spec_path), "--out", str(lab.out), "--cache", str(lab.directory / "cache"),
        "--engine-src", str(ROOT / "engine_src"), *arguments,
    ]  # fmt: skip
    return CliRunner().invoke(main, words)


def test_json_is_one_document_on_stdout_and_nothing_else(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(blocks=1)
    result = invoke(lab, monkeypatch, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["trials"] == {"ok": 2, "invalid": 0, "failed": 0}
    assert "trial  [2/2]" in result.stderr


def test_ctrl_c_in_the_analysis_keeps_the_results(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(blocks=1)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("perfrunner.report.build_report", interrupted)
        result = invoke(lab, patch)
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    shown = CliRunner().invoke(main, ["report", "--out", str(lab.out), "--format", "json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["trials"]["ok"] == 2
