"""`perfrunner init`: specs that can be run where they are written, and nothing overwritten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfrunner.experiment.plan import make_plan
from perfrunner.spec.loader import load_spec

SPECS = Path(__file__).parents[3] / "specs"


def test_every_spec_that_was_written_is_valid_and_can_be_planned(cli):
    done = cli("init", "perf")
    experiments = sorted((cli.directory / "perf/experiments").glob("*.yaml"))
    assert [p.name for p in experiments] == sorted(
        p.name for p in (SPECS / "experiments").glob("*.yaml")
    )
    for path in (cli.directory / "perf/first.yaml", *experiments):
        spec = load_spec(path)
        assert make_plan(spec, 1).trials
        assert f"wrote {path.relative_to(cli.directory)}" in done.stdout.splitlines()
    assert not (cli.directory / "perf/clusters/lab.yaml").exists()


def test_the_next_command_works(cli):
    output = cli("init", "my specs").stderr
    assert re.search(r"^ +perfrunner run 'my specs/first\.yaml' ", output, re.MULTILINE)
    cli("run", "my specs/first.yaml", "--dry-run")


def test_nothing_is_overwritten_and_what_is_missing_is_added(cli):
    cli("init", "perf")
    mine = cli.directory / "perf/first.yaml"
    mine.write_text("mine\n")
    (cli.directory / "perf/clusters/local.yaml").unlink()
    again = cli("init", "perf")
    assert again.stdout == "wrote perf/clusters/local.yaml\n"
    assert "kept perf/first.yaml" in again.stderr
    assert mine.read_text() == "mine\n"
    document = cli.json("init", "perf")
    assert (document["written"], document["kept"]) == ([], ["first.yaml"])
    assert len(document["unchanged"]) > 15
    assert document["next"] == [
        "perfrunner doctor perf/first.yaml",
        "perfrunner run perf/first.yaml",
    ]


def test_a_link_is_not_written_through(cli):
    outside = cli.directory / "outside.yaml"
    (cli.directory / "perf").mkdir()
    (cli.directory / "perf/first.yaml").symlink_to(outside)
    assert "kept perf/first.yaml" in cli("init", "perf").stderr
    assert not outside.exists()


def test_a_place_that_is_no_directory(cli):
    (cli.directory / "file").touch()
    assert "file is not a directory" in cli("init", "file", code=2).stderr
    (cli.directory / "perf").mkdir()
    (cli.directory / "perf/experiments").touch()
    assert "perf/experiments is not a directory" in cli("init", "perf", code=2).stderr


def test_an_installation_without_its_specs_says_so(cli, monkeypatch):
    monkeypatch.setattr("perfrunner.cli.init.bundled", lambda name: cli.directory / name)
    assert "lacks the reference specs" in cli("init", "perf", code=2).stderr
    assert not (cli.directory / "perf").exists()


EXAMPLES = re.findall(r"(?m)(?:^ *#:.*\n)+", (SPECS / "first.yaml").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("#:")[1].strip())
def test_the_examples_in_the_first_spec_are_valid(cli, example):
    cli("init", "perf")
    path = cli.directory / "perf/first.yaml"
    text = path.read_text().replace(example, example.replace("#:", ""))
    key = example.split("#:")[1].split(":")[0]
    if not example.startswith(" "):  # of the whole spec: in the place of what is there
        text = re.sub(rf"(?m)^{key}: .*\n", "", text, count=1)
    path.write_text(text)
    spec = load_spec(path)
    assert key in spec.variants or key == "buckets"
    assert spec.buckets == (("persistent", "ephemeral") if key == "buckets" else ("ephemeral",))


def test_the_first_spec_has_examples():
    assert len(EXAMPLES) == 5
