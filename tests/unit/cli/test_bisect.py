"""`bisect` around builds and a runner that are played: a scratch repository in which one commit makes it slower."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pytest

import perfrunner.build.builders
from perfrunner.build.artifact import Artifact, write_manifest
from perfrunner.build.tools import failed
from perfrunner.errors import BuildError
from perfrunner.experiment import events as ev
from perfrunner.results import ExperimentRecord, ResultStore
from tests.unit.cli.test_run import START, a_trial

COMMITS, CULPRIT = 8, 5


class Killed(BaseException):
    """As by SIGKILL: nothing is tidied up."""


def killed():
    raise Killed


def git_in(top):
    """git("commit", ...): runs git in this directory and returns what it printed."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]

    def git(*words):
        argv = ["git", "-C", top, *who, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    return git


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A repository with the commits `change 0` to `change 8`, and their hashes."""
    top = tmp_path_factory.mktemp("history")
    engine, git = top / "engine_src", git_in(top)
    (engine / "options").mkdir(parents=True)
    (engine / "options" / "Options.cmake").touch()
    (engine / "INTERFACE").write_text("3\n")
    (engine / "CMakeLists.txt").write_text("project(kv)\n")
    git("init", "-q", "-b", "main")
    commits = []
    for number in range(COMMITS + 1):
        (engine / "main.cc").write_text(f"{number}\n")
        git("add", "engine_src")
        git("commit", "-q", "-m", f"change {number}")
        commits.append(git("rev-parse", "HEAD"))
    return top, commits


@pytest.fixture
def lab(cli, history, monkeypatch):
    """A copy of `history`; `change 6` does not build. `lab.lives` trials may run before the kill."""
    top, commits = history
    shutil.copytree(top, cli.directory, symlinks=True, dirs_exist_ok=True)
    git = git_in(cli.directory)
    git("update-index", "-q", "--refresh")
    made = SimpleNamespace(cli=cli, commits=commits, runs=[], lives=99, git=git)
    made.end = killed
    made.program = lambda text: text  # what the compiler makes of a source

    def build(variant, source, cache, progress, programs):
        assert programs == ("kv_engine",)
        if (source / "main.cc").read_text() == "6\n":
            raise BuildError("the engine's build step failed:\n  main.cc:1: error: no")
        text = (source / "main.cc").read_text()
        path = cache / "artifacts" / text.strip()
        path.mkdir(parents=True, exist_ok=True)
        (path / "kv_engine").write_text(made.program(text))
        (path / "provenance.json").write_text(text)
        write_manifest(path, "id")
        return Artifact("id", path, {}, True, 0.0)

    def run(request, listener):
        spec = request.spec
        if len(made.runs) == made.lives:
            made.end()
        sha = spec.variants[list(spec.variants)[1]].source.git
        made.runs.append(commits.index(sha))
        slow = 0.03 if commits.index(sha) >= CULPRIT else 0.0
        out, name = request.out_dir, f"bisect-{os.getpid()}-{len(made.runs)}"
        with ResultStore.open(out) as store:
            store.create_experiment(
                ExperimentRecord(
                    name, spec.name, spec.model_dump(mode="json"), request.spec_text,
                    str(request.spec_path), 7, START, "0.1.0", state="done",
                )
            )  # fmt: skip
            trials = []
            for block in range(1, spec.blocks + 1):
                for position, variant in enumerate(spec.variants, start=1):
                    loss = 0.0 if variant == spec.baseline else slow
                    rate = 1e6 * (1 - loss) * (1 + 0.001 * ((block * 7 + position * 3) % 5))
                    trials.append(a_trial(block, position, variant, rate))
            store.add_trials(name, trials)
        return ev.RunOutcome(name, 0, out / name, ())

    monkeypatch.setattr("perfrunner.build.builders.build_variant", build)
    monkeypatch.setattr("perfrunner.experiment.run.run_experiment", run)
    made.words = ["bisect", "spec.yaml", "--good", commits[0], "--bad", "main", "--metric", "ops_per_s",
                  "--workloads", "pf", "--set", "blocks=10"]  # fmt: skip
    return made


def test_it_finds_the_commit_and_draws_every_step(lab):
    result = lab.cli(*lab.words)
    assert result.stdout.splitlines()[0].startswith("ops_per_s changed (\N{MINUS SIGN}3.00 % [")
    assert f"at {lab.commits[CULPRIT][:12]} change {CULPRIT}" in result.stdout
    assert (
        "change 6: skip (does not build: the engine's build step failed: | main.cc:1: error: no"
        in result.stderr
    )
    assert len(lab.runs) == len(set(lab.runs)) <= 5
    (page,) = (lab.cli.directory / "perfrunner-results" / "bisect").glob("*.md")
    text = page.read_text()
    chart = page.with_suffix(".svg").read_text()
    for number in lab.runs:
        assert f"`{lab.commits[number][:12]}`" in text
        assert f"{lab.commits[number][:7]} change {number}" in chart
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_json(lab):
    document = lab.cli.json(*lab.words)
    assert document["culprits"] == [lab.commits[CULPRIT]]
    assert {s["outcome"] for s in document["steps"]} == {"good", "bad", "skip"}


def test_commits_that_leave_the_programs_alone_are_not_measured(lab):
    """All changes but one are to comments."""
    lab.program = lambda text: "slow" if int(text) >= CULPRIT else "fast"
    document = lab.cli.json(*lab.words)
    assert document["culprits"] == [lab.commits[CULPRIT]]
    assert lab.runs == [COMMITS], "the bad end, whose change is what is looked for"
    whys = {s["outcome"]: s["why"] for s in document["steps"][1:]}
    assert whys["good"] == "same programs as the good revision"
    assert whys["bad"] == f"same programs as {lab.commits[COMMITS][:12]}"


def test_killed_it_goes_on_with_resume(lab):
    for life in (0, 1, 2):  # 0: within the first step
        lab.lives = life
        with pytest.raises(Killed):
            lab.cli(*lab.words, *(["--resume"] if life > 0 else []))
    lab.lives = 99
    lab.cli(*lab.words, "--resume")
    assert len(lab.runs) == len(set(lab.runs)), "no commit was measured twice"
    (state,) = (lab.cli.directory / "perfrunner-results" / "bisect").glob("*.json")
    assert json.loads(state.read_text())["good"] == lab.commits[0]


def test_a_process_ended_by_sigkill_goes_on_with_resume(lab):
    lab.lives, lab.end = 1, lambda: os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if child == 0:
        lab.cli(*lab.words)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    lab.lives = 99
    assert lab.cli.json(*lab.words, "--resume")["culprits"] == [lab.commits[CULPRIT]]
    assert COMMITS not in lab.runs, "the bad end, which was measured, is not measured again"


def test_content_that_the_clone_lacks_ends_it_with_the_command_that_fetches_it(lab):
    """Play a partial clone, fetch what it lacks, and resume the bisection."""
    lab.git("config", "remote.origin.url", "https://127.0.0.1:1/gone.git")
    lab.git("config", "remote.origin.promisor", "true")
    away = {}
    for commit in lab.commits[4:-1]:  # change 3 shares a file with the good revision
        blob = lab.git("rev-parse", f"{commit}:engine_src/main.cc")
        path = lab.cli.directory / ".git" / "objects" / blob[:2] / blob[2:]
        away[path] = path.read_bytes()
        path.unlink()
    error = lab.cli(*lab.words, code=2).stderr
    assert "is a partial clone and lacks content" in error
    assert "archive -o /dev/null REVISION" in error
    for path, content in away.items():
        path.write_bytes(content)
    document = lab.cli.json(*lab.words, "--resume")
    assert document["culprits"] == [lab.commits[CULPRIT]]


def test_a_build_that_the_machine_ended_is_no_skipped_commit(lab, monkeypatch):
    whole = perfrunner.build.builders.build_variant

    def build(variant, source, *rest):
        if (source / "main.cc").read_text() not in ("0\n", f"{COMMITS}\n"):
            line = "c++: fatal error: Killed signal terminated program cc1plus"
            raise failed("the build step", 1, [line], source)
        return whole(variant, source, *rest)

    with monkeypatch.context() as full:
        full.setattr("perfrunner.build.builders.build_variant", build)
        error = lab.cli(*lab.words, code=3).stderr
    assert "Killed signal" in error
    assert "hint: the machine ran out of memory" in error
    assert lab.cli.json(*lab.words, "--resume")["culprits"] == [lab.commits[CULPRIT]]


def test_a_commit_that_was_not_built_is_tried_again_when_resumed(lab, monkeypatch):
    whole = perfrunner.build.builders.build_variant

    def build(variant, source, *rest):
        if (source / "main.cc").read_text() in ("4\n", f"{CULPRIT}\n"):
            raise BuildError("a.cc:1: error: the library is too old")
        return whole(variant, source, *rest)

    with monkeypatch.context() as old:
        old.setattr("perfrunner.build.builders.build_variant", build)
        assert len(lab.cli.json(*lab.words)["culprits"]) > 1
    assert lab.cli.json(*lab.words, "--resume")["culprits"] == [lab.commits[CULPRIT]]
    assert len(lab.runs) == len(set(lab.runs)), "no commit was measured twice"


def test_ends_that_are_refused_leave_nothing_to_resume(lab):
    words = [{lab.commits[0]: "main", "main": "main~2"}.get(word, word) for word in lab.words]
    lab.cli(*words, code=2)
    assert "(good) is newer than" in lab.cli(*words, "--resume", code=2).stderr
    assert not list(lab.cli.directory.rglob("bisect*/*.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--metric": "ops_per_sec"}, "did you mean ops_per_s"),
        ({"--metric": "payload_bytes"}, "neither direction of payload_bytes is better"),
        ({"--good": "mian"}, "has no revision mian (did you mean main?)"),
        ({"--good": "main", "--bad": "main~2"}, "(good) is newer than"),
        ({"--workloads": "pf,ap"}, "a bisection needs one workload on one bucket type"),
        ({"--set": "blocks=5"}, "needs verdicts, which take 6 blocks, but the spec has 5"),
    ],
)
def test_what_is_wrong_ends_with_2(lab, change, message):
    words = [
        change.get(before, word) for before, word in zip(["", *lab.words], lab.words, strict=False)
    ]
    assert message in lab.cli(*words, code=2).stderr
    assert lab.runs == []


def test_nothing_to_resume(lab):
    assert "nothing to resume" in lab.cli(*lab.words, "--resume", code=2).stderr


def test_no_change_to_look_for(lab):
    words = [w if w != "main" else "main~5" for w in lab.words]
    error = lab.cli(*words, code=3).stderr
    assert re.search(r"no change of ops_per_s between \w{12} and \w{12}: same", error)
