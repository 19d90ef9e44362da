"""`run` and `build` around a runner that is played: arguments, output, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

from perfrunner.build.artifact import Artifact
from perfrunner.cli.build import RememberedSettingsChecks
from perfrunner.cli.output import LostOutput
from perfrunner.cli.request import resume_command
from perfrunner.cli.run import command
from perfrunner.errors import BuildError, HostError, SettingsCheckError
from perfrunner.experiment import events as ev
from perfrunner.experiment.preflight.builds import Builds
from perfrunner.results import BuildRecord, ExperimentRecord, ResultStore, TrialRecord
from perfrunner.spec.loader import load_spec
from tests.support.fakes import ROOT

START = datetime(2026, 1, 2, tzinfo=timezone.utc)


class PlayedRunner:
    """Stores six blocks of made-up trials; `slow` is slower by `slowdown`."""

    def __init__(self, exit_code=0, slowdown=0.0, failures=(), slow="always,3"):
        self.slow = slow
        self.exit_code, self.slowdown, self.failures = exit_code, slowdown, failures
        self.arguments = None

    def __call__(self, request, listener):
        self.arguments = request
        spec, out = request.spec, request.out_dir
        directory = out / "small-1"
        directory.mkdir(parents=True, exist_ok=True)
        with ResultStore.open(out) as store:
            store.create_experiment(
                ExperimentRecord(
                    "small-1", spec.name, spec.model_dump(mode="json"), request.spec_text,
                    str(request.spec_path), 7, START, "0.1.0", state="done",
                )
            )  # fmt: skip
            trials = []
            for block in range(1, 7):
                for position, variant in enumerate(spec.variants, start=1):
                    slow = self.slowdown if variant == self.slow else 0.0
                    rate = 1e6 * (1 - slow) * (1 + 0.001 * ((block * 7 + position * 3) % 5))
                    trials.append(a_trial(block, position, variant, rate))
            store.add_trials("small-1", trials)
        listener.on_event(ev.RunFinished("small-1", self.exit_code, 18, 0, 0, 60.0))
        return ev.RunOutcome("small-1", self.exit_code, directory, tuple(self.failures))


def a_trial(block, position, variant, rate):
    start = START + timedelta(minutes=block)
    return TrialRecord(
        block, 1, position, "pf", "persistent", variant, f"build-{variant}", "ok", "",
        start, start + timedelta(seconds=7), {"ops_per_s": rate}, {}, f"small-1/trials/{block}",
    )  # fmt: skip


@pytest.fixture
def play(monkeypatch, cli):
    engine = cli.directory / "engine_src"
    (engine / "options").mkdir(parents=True)
    (engine / "INTERFACE").write_text("3\n")
    (engine / "CMakeLists.txt").write_text("project(kv)\n")

    def use(**settings):
        runner = PlayedRunner(**settings)
        monkeypatch.setattr("perfrunner.experiment.run.run_experiment", runner)
        return runner

    return use


def test_run_prints_the_report_and_leaves_a_page(cli, play):
    play()
    result = cli("run", "spec.yaml")
    assert "against glibc (6 blocks): as fast" in result.stdout
    page = cli.directory / "perfrunner-results" / "small-1" / "report.html"
    assert "<html" in page.read_text()
    assert "small-1/report.html" in result.stderr
    assert "done   small-1" in result.stderr
    assert "done   small-1" not in result.stdout


def test_run_hands_over_what_the_command_line_says(cli, play):
    runner = play()
    cli("run", "spec.yaml", "--repeats", "6", "--seed", "5", "--variants", "always,3", "--workloads", "pf",
        "--set", "engine.threads=3", "--out", "elsewhere", "--quiet")  # fmt: skip
    got = runner.arguments
    assert (got.spec.blocks, got.spec.engine.threads, got.seed) == (6, 3, 5)
    assert (list(got.spec.variants), list(got.spec.workloads)) == (["glibc", "always,3"], ["pf"])
    assert (str(got.out_dir), got.resume) == ("elsewhere", None)
    assert got.spec_text == (cli.directory / "spec.yaml").read_text()
    assert got.engine_src == cli.directory / "engine_src"
    assert got.cache_dir == cli.directory / "cache"
    assert got.spec.seed is None  # --seed is no part of the spec: --resume must find it unchanged


def test_a_source_of_the_command_line(cli, play, tmp_path):
    runner = play()
    (cli.directory / "fix.patch").touch()
    git = ["git", "-C", str(cli.directory), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    cli("run", "spec.yaml", "--set", "variants.glibc.source={git: main, patch: fix.patch}",
        "--source", "glibc=v1", "--source", "always,3=.")  # fmt: skip
    variants = runner.arguments.spec.variants
    assert variants["glibc"].source.git == "v1"
    assert variants["glibc"].source.patch == str(cli.directory / "fix.patch"), "it stays on top"
    assert variants["always,3"].source.dir == str(cli.directory)
    assert variants["auto,3"].source is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("glbc=v1", "--source glbc=v1: expected a variant of the spec"),
        ("glibc", "--source glibc: expected NAME=REVISION or NAME=DIRECTORY"),
        ("glibc=--x", "expected a git revision, tag or branch, or a directory, got '--x'"),
    ],
)
def test_a_wrong_source_of_the_command_line(cli, play, text, message):
    play()
    assert message in cli("run", "spec.yaml", "--source", text, code=2).stderr


def test_the_resume_command_repeats_every_option_that_matters(cli, play):
    runner = play()
    cli(
        "run",
        "spec.yaml",
        "--repeats",
        "6",
        "--set",
        "engine.threads=3",
        "--set",
        "blocks=4",
        "--out",
        "a b",
        "-q",
    )
    words = shlex.split(runner.arguments.resume_command)
    assert words == ["perfrunner", "run", "spec.yaml", "--set", "engine.threads=3", "--set", "blocks=4",
                     "--repeats", "6", "--out", "a b", "--cache", str(cli.directory / "cache"), "--quiet",
                     "--resume"]  # fmt: skip


def test_the_resume_command_does_not_repeat_a_default(cli, play, monkeypatch):
    monkeypatch.delenv("PERFRUNNER_CACHE")
    words = shlex.split(resume_command(command.make_context("run", ["spec.yaml"])))
    assert words == ["perfrunner", "run", "spec.yaml", "--resume"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://perf@db/results?raw=/srv/raw", "postgresql://perf@db/results?raw=/srv/raw"),
        ("postgresql://perf:secret@db/results", "postgresql://perf:***@db/results"),
        (
            "postgresql://db/results?user=u&password=s3&sslpassword=k&sslmode=require",
            "postgresql://db/results?user=u&password=***&sslpassword=***&sslmode=require",
        ),
        ("postgresql://perf:s3:c/r?t@db:5432/results", "postgresql://perf:***@db:5432/results"),
    ],
)
def test_the_resume_command_names_the_store_without_its_password(cli, play, url, shown):
    ctx = command.make_context("run", ["spec.yaml", "--store", url])
    words = shlex.split(resume_command(ctx))
    assert words[-3:] == ["--store", shown, "--resume"]


def test_a_store_of_the_environment_is_not_repeated(cli, play, monkeypatch):
    """Whoever goes on has the same environment, and it may hold a password."""
    monkeypatch.setenv("PERFRUNNER_STORE", "postgresql://perf:secret@db/results")
    ctx = command.make_context("run", ["spec.yaml"])
    assert "--store" not in resume_command(ctx)


def test_the_command_for_the_report_has_all_that_is_measured_and_nothing_else(
    cli, play, monkeypatch
):
    runner = play()
    engine = cli.directory / "engine_src"
    cli("run", str(cli.directory / "spec.yaml"), "--set", "engine.threads=3", "--variants", "always,3", "--workloads",
        "pf", "--engine-src", str(engine), "--out", "x", "--json", "-q", "--fail-on", "worse")  # fmt: skip
    assert list(runner.arguments.command) == [
        "perfrunner", "run", "spec.yaml", "--set", "engine.threads=3", "--workloads", "pf", "--variants", "always,3",
        "--engine-src", "engine_src",
    ]  # fmt: skip
    monkeypatch.setenv("PERFRUNNER_ENGINE_SRC", str(engine))
    cli("run", "spec.yaml", "--out", "y")
    assert list(runner.arguments.command)[2:] == ["spec.yaml", "--engine-src", "engine_src"]


def test_json_is_the_only_thing_on_stdout(cli, play):
    play()
    result = cli("run", "spec.yaml", "--json")
    document = json.loads(result.stdout)
    assert document["experiment"] == "small-1"
    assert document["trials"]["ok"] == 18


@pytest.mark.parametrize(("slowdown", "code"), [(0.0, 0), (0.10, 1)])
def test_fail_on_worse(cli, play, slowdown, code):
    play(slowdown=slowdown)
    result = cli("run", "spec.yaml", "--fail-on", "worse", code=code)
    assert ("always,3 pf persistent ops_per_s is worse" in result.stderr) is bool(code)


@pytest.mark.parametrize("words", [("run", "spec.yaml"), ("ab", "true {port}", "true {port} x")])
def test_fail_on_lost_needs_expected_gains_before_anything_starts(cli, play, words):
    runner = play()
    assert "expected_gains" in cli(*words, "--fail-on", "lost", code=2).stderr
    assert runner.arguments is None


def test_a_worse_variant_without_the_option_is_no_failure(cli, play):
    play(slowdown=0.1)
    cli("run", "spec.yaml")


def test_failed_trials_are_listed_and_end_with_3(cli, play):
    play(exit_code=3, failures=["block 2, je: engine killed by signal 11"])
    result = cli("run", "spec.yaml", code=3)
    assert "failed: block 2, je: engine killed by signal 11" in result.stderr
    # What was measured is reported all the same.
    assert "against glibc (6 blocks): as fast" in result.stdout


LATE_IMPORTS = """
import sys
import perfrunner.experiment.run as run

def ours():
    return {name for name in sys.modules if name.startswith("perfrunner")}

def play(request, listener):
    global at_start, of_the_test
    at_start = ours()
    from tests.unit.cli.test_run import PlayedRunner
    of_the_test = ours() - at_start
    return PlayedRunner()(request, listener)

run.run_experiment = play
from perfrunner.cli import main
main(["run", "spec.yaml"], standalone_mode=False)
print(*sorted(ours() - at_start - of_the_test), file=sys.stderr)
"""


@pytest.mark.long
def test_a_run_loads_the_modules_of_its_report_before_it_starts(cli, play):
    """A `git pull` in the meantime must not mix the modules of two versions."""
    play()
    done = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS], cwd=cli.directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == ""


def test_an_interrupted_run_ends_with_130_and_no_report(cli, play):
    play(exit_code=130)
    assert cli("run", "spec.yaml", code=130).stdout == ""


def test_a_run_that_cannot_go_on_ends_with_3(cli, play, monkeypatch):
    play()

    def fail(*_, **__):
        raise HostError("here: port 22 refused", "is sshd running?")

    monkeypatch.setattr("perfrunner.experiment.run.run_experiment", fail)
    assert cli("run", "spec.yaml", code=3).stderr.endswith(
        "error: here: port 22 refused\nhint: is sshd running?\n"
    )


def test_without_an_engine_source_nothing_starts(cli, play):
    play()
    assert (
        "--engine-src nowhere is not an engine source"
        in cli("run", "spec.yaml", "--engine-src", "nowhere", code=2).stderr
    )


@pytest.fixture
def built(monkeypatch, cli, play):
    """Builds that succeed at once; returns the list of variants that were started for a settings check."""
    play()
    checked = []

    def build_all(spec, sources, builder, cache_dir, listener):
        artifacts = {n: Artifact(f"id-{v.allocator.name}", cli.directory, {"flags": "-O2"}, True, 0.1)
                     for n, v in spec.variants.items()}  # fmt: skip
        return Builds(artifacts, {})

    def deploy_and_check(spec, builds, hosts, listener, store, cache_dir):
        for name, artifact in builds.artifacts.items():
            checked.append(name)
            store(BuildRecord(name, artifact.build_id, settings={"opt.x": name}))

    class NoHosts:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("perfrunner.experiment.preflight.builds.build_all", build_all)
    monkeypatch.setattr("perfrunner.experiment.preflight.builds.deploy_and_check", deploy_and_check)
    monkeypatch.setattr("perfrunner.experiment.preflight.hosts.open_hosts", NoHosts)
    return checked


def test_build_prints_ids_and_what_was_read_back(cli, built):
    text = cli("build", "spec.yaml").stdout
    assert "id-jemalloc-5.1.0" in text
    assert "opt.x=always,3" in text
    assert built == ["glibc", "auto,3", "always,3"]
    document = cli.json("build", "spec.yaml")
    assert [b["variant"] for b in document["builds"]] == ["glibc", "auto,3", "always,3"]
    assert document["builds"][0]["provenance"] == {"flags": "-O2"}


def test_a_repeated_build_does_not_check_again_unless_asked_or_changed(cli, built):
    cli("build", "spec.yaml")
    cli("build", "spec.yaml")
    assert len(built) == 3
    cli("build", "spec.yaml", "--check-again")
    assert len(built) == 6
    cli("build", "spec.yaml", "--set", "variants.glibc.params.ht_size=5")
    assert built[6:] == ["glibc"]


def test_a_damaged_settings_check_is_made_again(cli, built):
    cli("build", "spec.yaml")
    for path in (cli.directory / "cache" / "settings_checks").iterdir():
        path.write_text("{")
    cli("build", "spec.yaml")
    assert len(built) == 6


def test_a_failed_build_is_shown_and_ends_with_3(cli, built, monkeypatch):
    monkeypatch.setattr(
        "perfrunner.experiment.preflight.builds.build_all",
        lambda *_: Builds(
            {"glibc": Artifact("id", cli.directory, {}, True, 0.1)},
            {"auto,3": "no cargo", "always,3": "x"},
        ),
    )
    assert "failed" in cli("build", "spec.yaml", code=3).stdout


@pytest.mark.parametrize(
    "error", [BuildError("no compiler"), SettingsCheckError("glibc: asked x, got y")]
)
def test_errors_of_builds_and_settings_checks_end_with_3(cli, built, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("perfrunner.experiment.preflight.builds.build_all", fail)
    assert f"error: {error.message}" in cli("build", "spec.yaml", code=3).stderr


def test_a_settings_check_is_for_one_build_and_one_setting(cli):
    spec = load_spec(cli.directory / "spec.yaml")
    settings_checks = RememberedSettingsChecks(cli.directory / "cache", spec)
    settings_checks.remember("glibc", "b1", {"a": "1"})
    assert settings_checks.find("glibc", "b1") == {"a": "1"}
    assert settings_checks.find("glibc", "b2") is None
    assert settings_checks.find("auto,3", "b1") is None
    other = load_spec(cli.directory / "spec.yaml", ["engine.shards=1"])
    assert RememberedSettingsChecks(cli.directory / "cache", other).find("glibc", "b1") is None


@pytest.mark.parametrize(
    "place",
    [
        "perfrunner.report.build_report",
        "perfrunner.report.render",
        "perfrunner.report.write_html",
        "perfrunner.report.redact.redacted",
        "perfrunner.analysis.nights.keep_night",
    ],
)
def test_a_report_that_fails_is_not_lost(cli, play, monkeypatch, place):
    play(failures=["one trial"])
    out = ("--out", str(cli.directory / "else where")) if place.endswith("render") else ()

    def fails(*_, **__):
        raise UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")

    with monkeypatch.context() as patch:
        patch.setattr(place, fails)
        result = cli("run", "spec.yaml", *out, code=3)
    again = shlex.join(["report", "small-1", *out])
    assert (
        f"hint: the measurements are stored; report them with: perfrunner {again}" in result.stderr
    )
    assert "error: the report failed: UnicodeEncodeError" in result.stderr
    assert "failed: one trial" in result.stderr
    assert ("as fast" in result.stdout) == (place == "perfrunner.report.write_html")
    assert "as fast" in cli(*shlex.split(again)).stdout


def test_a_full_stdout_names_the_command_that_prints_the_run(cli, play, monkeypatch):
    play()

    def full(_):
        raise LostOutput(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("perfrunner.cli.run.result", full)
        lost = cli("run", "spec.yaml", "--out", "else where", code=3)
    again = shlex.join(["report", "small-1", "--out", str(cli.directory / "else where")])
    assert f"perfrunner {again}\n" in lost.stderr
    assert "as fast" in cli(*shlex.split(again)).stdout


def test_a_page_that_cannot_be_written_costs_only_the_page(cli, play):
    play()
    page = cli.directory / "perfrunner-results" / "small-1" / "report.html"
    page.mkdir(parents=True)
    (page / "in the way").touch()
    result = cli("run", "spec.yaml", code=3)
    assert "as fast" in result.stdout
    assert "error: the report failed: cannot write" in result.stderr
    assert "Traceback" not in result.stderr
