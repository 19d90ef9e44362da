"""`ab` around a runner that is played."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from perfrunner.analysis.noise import is_aa
from perfrunner.errors import UsageError
from perfrunner.spec.loader import load_spec
from perfrunner.spec.pair import pair, small_spec, spec_document
from perfrunner.spec.source import SourceSpec
from tests.unit.cli.test_run import play

__all__ = ["play"]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(cli, play):
    """The engine source of `play`, in a repository with two revisions: main~1 and main."""
    engine = cli.directory / "engine_src"

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", cli.directory, *who, *words], check=True, capture_output=True)

    (engine / "options" / "Options.cmake").touch()
    (engine / "INTERFACE").write_text("3\n")
    git("init", "-q", "-b", "main")
    for text in ("one", "two"):
        (engine / "main.cc").write_text(f"{text}\n")
        git("add", "engine_src")
        git("commit", "-q", "-m", text)
    return play


def test_two_revisions_need_no_spec(cli, repository):
    runner = repository()
    result = cli(
        "ab", "main~1", "main", "--workload", "pillowfight", "--items", "20k", "--blocks", "6"
    )
    spec = runner.arguments.spec
    assert list(spec.variants) == ["main-1", "main"]
    assert [v.source for v in spec.variants.values()] == [
        SourceSpec(git="main~1"),
        SourceSpec(git="main"),
    ]
    assert (spec.baseline, spec.name, spec.blocks) == ("main-1", "ab-main-1-main", 6)
    assert list(spec.workloads) == ["pillowfight"]
    assert spec.workloads["pillowfight"].items == 20_000
    kept = Path(runner.arguments.spec_path)
    assert load_spec(kept) == spec, "the spec that it leaves is the one that was run"
    assert "main against main-1 (6 blocks): as fast" in result.stdout


def test_the_working_tree_is_named_by_its_place(cli, repository):
    runner = repository()
    (cli.directory / "engine_src" / "main.cc").write_text("edited\n")
    cli("ab", "main", ".")
    variants = runner.arguments.spec.variants
    assert list(variants) == ["main", "here"]
    assert variants["here"].source == SourceSpec(dir=str(cli.directory))


def test_the_working_tree_from_deep_within(cli, repository, monkeypatch):
    runner = repository()
    (cli.directory / "engine_src" / "main.cc").write_text("edited\n")
    monkeypatch.chdir(cli.directory / "engine_src" / "options")
    cli("ab", "main", ".")
    assert runner.arguments.spec.variants["here"].source == SourceSpec(
        dir=str(cli.directory / "engine_src")
    )


def test_a_directory_that_reads_as_a_revision(cli, repository):
    repository()
    failed = cli("ab", "main", "engine_src", code=2)
    assert "has no revision engine_src" in failed.stderr
    assert "to use a directory, write its path: ./engine_src" in failed.stderr


def test_the_resume_command_names_both(cli, repository):
    runner = repository()
    cli("ab", "main~1", "main", "--blocks", "6", "-q")
    words = shlex.split(runner.arguments.resume_command)
    assert words[:4] == ["perfrunner", "ab", "main~1", "main"]
    assert words[-1] == "--resume"


def test_settings_and_workloads_of_another_spec(cli, repository):
    runner = repository()
    cli("ab", "main~1", "main", "--spec", "spec.yaml", "--workload", "pf")
    spec = runner.arguments.spec
    assert list(spec.workloads) == ["pf"]
    assert spec.blocks == 2
    assert {v.allocator.name for v in spec.variants.values()} == {"system"}


class TestTheSameEngine:
    def test_is_refused(self, cli, repository):
        runner = repository()
        result = cli("ab", "main", "HEAD", code=2)
        assert "main and HEAD are the same engine (content " in result.stderr
        assert runner.arguments is None

    def test_or_skipped(self, cli, repository):
        runner = repository()
        assert "are the same engine" in cli("ab", "main", "HEAD", "--if-same", "skip").stdout
        assert cli.json("ab", "main", "HEAD", "--if-same", "skip")["same"] is True
        assert runner.arguments is None

    def test_or_measured(self, cli, repository):
        runner = repository()
        cli("ab", "main", "main", "--if-same", "measure")
        assert list(runner.arguments.spec.variants) == ["main", "main-2"]
        cli("clean", "--results", "small-1", "--yes")
        cli("ab", "main", "HEAD", "--if-same", "measure")
        spec = runner.arguments.spec
        assert list(spec.variants) == ["main", "HEAD"]
        assert is_aa(spec.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["main", "mian"], "variant mian: "),
        (
            ["main", "a b"],
            "B: expected a git revision, tag or branch, or a directory, got 'a b'",
        ),
        (["main", "./nowhere"], "no such directory"),
        (["main~1", "main", "--workload", "apend"], "append"),
        (["main~1", "main", "--items", "many"], "--items many: expected"),
    ],
)
def test_what_is_wrong_ends_with_2(cli, repository, words, message):
    runner = repository()
    assert message in cli("ab", *words, code=2).stderr
    assert runner.arguments is None


@pytest.mark.parametrize(("slowdown", "code"), [(0.0, 0), (0.1, 1)])
def test_a_gate(cli, repository, slowdown, code):
    repository(slowdown=slowdown, slow="main")
    result = cli("ab", "main~1", "main", "--fail-on", "worse", code=code)
    assert ("--fail-on worse: main pf persistent ops_per_s is worse" in result.stderr) is bool(code)


@pytest.fixture
def spec_of_revisions(cli, repository):
    """A spec whose variants are main~1 and `mian`; the line of the latter."""
    path = cli.directory / "revisions.yaml"
    text = (cli.directory / "spec.yaml").read_text()
    mine = "  mine:\n    allocator: {name: system}\n    source:\n      git: mian\n"
    path.write_text(text.replace("matrix:", f"{mine}matrix:"))
    return path, path.read_text().splitlines().index("      git: mian") + 1


@pytest.mark.parametrize(
    "words", [["validate"], ["plan"], ["run", "--dry-run"], ["build"], ["run"]]
)
def test_an_unknown_revision_of_a_spec_is_reported_at_its_line(
    cli, repository, spec_of_revisions, words
):
    runner = repository()
    path, line = spec_of_revisions
    error = cli(*words, path.name, code=2).stderr
    assert (
        f"revisions.yaml:{line}: variants.mine.source.git: {cli.directory} has no revision mian"
        in error
    )
    assert "did you mean main?" in error
    assert runner.arguments is None


def test_an_unknown_revision_of_the_command_line_is_reported_before_a_plan(cli, repository):
    error = cli("plan", "spec.yaml", "--source", "glibc=mian", code=2).stderr
    assert "variant glibc: " in error
    assert "has no revision mian (did you mean main?)" in error
    assert "variant mian: " in cli("ab", "--dry-run", "main", "mian", code=2).stderr


@pytest.mark.parametrize("words", [["validate"], ["plan"], ["run"], ["build"]])
def test_revisions_of_a_spec_are_not_those_of_perfrunners_own_engine(
    cli, repository, spec_of_revisions, monkeypatch, tmp_path, words
):
    """In another repository, whose engine is nowhere near, our own repository is not what was meant."""
    repository()
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", other], check=True)
    for name in ("spec.yaml", "revisions.yaml"):
        text = (cli.directory / name).read_text().replace("mian", "main")
        (other / name).write_text(text)
    monkeypatch.chdir(other)
    monkeypatch.setattr("perfrunner.cli.request.bundled", lambda name: cli.directory / name)
    assert (
        f"{other} has no engine_src/ here or above" in cli(*words, "revisions.yaml", code=2).stderr
    )
    if words == ["plan"]:
        assert cli("plan", "spec.yaml").stdout, "the engine as it is"
        words = ["plan", "--source", "glibc=main"]
        assert "has no engine_src/ here or above" in cli(*words, "spec.yaml", code=2).stderr


def test_a_dry_run_shows_both(cli, repository):
    plan = cli.json("ab", "main~1", "main", "--dry-run")
    assert list(plan["variants"]) == ["main-1", "main"]
    assert "source=main~1" in cli("ab", "main~1", "main", "--dry-run").stdout


@pytest.mark.parametrize(
    "spec", sorted((ROOT / "specs" / "experiments").glob("*.yaml")), ids=lambda p: p.stem
)
def test_every_spec_is_its_own_document(spec, tmp_path):
    """What a pair leaves as a file reads back as itself, whatever it was made of."""
    loaded = load_spec(spec)
    sources = {"a": SourceSpec(git="v1"), "b": SourceSpec(git="v2")}
    path = tmp_path / "made.yaml"
    if loaded.variants[loaded.baseline].server is not None:
        with pytest.raises(UsageError, match="is not built from a repository"):
            pair(loaded, "a b", sources)
        path.write_text(spec_document(loaded))
        assert load_spec(path) == loaded
        return
    made = pair(loaded, "a b", sources)
    path.write_text(spec_document(made))
    assert load_spec(path) == made


def test_the_small_spec_is_a_spec():
    assert list(small_spec().workloads) == ["pillowfight", "append"]
