"""`aa` around a runner that is played."""

from __future__ import annotations

import shlex

from perfrunner.analysis.noise import is_aa
from tests.unit.cli.test_run import play

__all__ = ["play"]


def test_it_runs_the_baseline_against_itself_and_prints_the_floor(cli, play):
    runner = play()
    result = cli("aa", "spec.yaml", "--workloads", "pf")
    spec = runner.arguments.spec
    assert list(spec.variants) == ["glibc", "glibc-again"]
    assert spec.name == "aa-small"
    assert is_aa(spec.model_dump(mode="json"))
    assert list(spec.workloads) == ["pf"]
    assert "noise floor" in result.stdout
    assert "A/A blocks" in result.stdout


def test_another_variant_may_be_named(cli, play):
    runner = play()
    cli("aa", "spec.yaml", "--variant", "always,3", "--repeats", "20")
    assert list(runner.arguments.spec.variants) == ["always,3", "always,3-again"]
    assert runner.arguments.spec.blocks == 20
    words = shlex.split(runner.arguments.resume_command)
    assert words[:2] == ["perfrunner", "aa"]
    assert words[-1] == "--resume"
    assert "--variant" in words


def test_an_unknown_variant_ends_with_2(cli):
    result = cli("aa", "spec.yaml", "--variant", "alwys,3", code=2)
    assert "always,3" in result.stderr


def test_without_a_spec_it_takes_that_of_the_latest_experiment(cli, play):
    play()
    cli("run", "spec.yaml", "--set", "workloads.pf.items=77")
    (cli.directory / "spec.yaml").unlink()  # it is kept with the results
    plan = cli.json("aa", "--dry-run", "--repeats", "3")
    assert (plan["experiment"], plan["blocks"]) == ("aa-small", 3)
    assert "small-1" in cli("aa", "--dry-run").stderr


def test_without_a_spec_nothing_can_be_changed(cli, play):
    play()
    cli("run", "spec.yaml")
    assert "need a spec file" in cli("aa", "--set", "blocks=3", code=2).stderr


def test_without_a_spec_and_without_results(cli):
    assert "no results" in cli("aa", code=3).stderr
