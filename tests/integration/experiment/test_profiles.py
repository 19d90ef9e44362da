"""Profiles: fake engines that really run, under a perf of fixed samples; and the real engine under the real perf."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.errors import EXIT_FAILED, EXIT_USAGE, HostError
from perfrunner.experiment.trial.sampling import Profiler, find_child
from perfrunner.hosts import open_host
from perfrunner.measure import cpu_profile as perf
from perfrunner.measure.cpu_profile import check_perf
from perfrunner.report import build_report, write_html
from perfrunner.spec.cluster import HostSpec
from tests.integration.sshd import raised_sshd
from tests.support.built import built
from tests.support.fakes import PILLOWFIGHT, Lab, variant, write_perf
from tests.support.trials import open_trial

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
SHORT = {**PILLOWFIGHT, "duration": 2, "ramp": 0}
PROFILED = {**SHORT, "profile": "perf"}
BASE = "front-end;kv::run(int);cold 4\nfront-end;kv::run(int);hot 1\n"
CHANGED = "front-end;kv::run(int);cold 4\nfront-end;kv::run(int);hot 4\n"


@pytest.mark.parametrize(
    "schedule", ["interleaved", pytest.param("sequential", marks=pytest.mark.long)]
)
def test_each_trial_of_a_profiled_workload_is_recorded(lab: Lab, schedule: str) -> None:
    lab.write_spec(workloads={"pf": PROFILED, "other": SHORT}, blocks=1, schedule=schedule)
    code, driver = lab.run(fakes={"perf": str(write_perf(lab.directory))})
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    assert len(data.trials) == 4
    stacks = {"base": BASE, "changed": CHANGED}
    for trial in data.trials:
        if trial.workload == "other":
            assert "profile" not in trial.facts
            continue
        taken = trial.facts["profile"]
        assert taken["samples"] == (5 if trial.variant == "base" else 8)
        assert (taken["event"], taken["frequency"], taken["cut_short"]) == ("cpu-clock", 499, False)
        directory = lab.out / trial.raw_dir
        script = (directory / "reproduce.sh").read_text()
        assert "perf record" in script
        assert '--pid="$PID_engine' in script
        assert (directory / "profile.folded").read_text() == stacks[trial.variant]
    lab.assert_nothing_left()
    assert printed(lab, "profile") == BASE
    assert printed(lab, "profile", "--variant", "changed") == CHANGED
    for words, message in (
        (["--variant", "chnged"], "no profile of variant chnged (did you mean changed?)"),
        (["--against", "none"], "no profile of variant none"),
        (["--case", "other"], "has no profiled case other"),
    ):
        assert message in refused(lab, EXIT_USAGE, "profile", *words)
    page = write_html(build_report(data), data, lab.directory / "page.html").read_text()
    assert page.count('<svg class="flame"') == 2, "a difference, and the baseline alone"
    assert "1 block with profiles of base and changed, expected at least 3" in page
    graph = lab.directory / "why.svg"
    why = refused(lab, EXIT_FAILED, "explain", "base", "changed", "--flame", str(graph))
    assert "expected at least 3" in why
    assert graph.read_text().startswith("<svg ")


@pytest.mark.long
def test_the_functions_of_all_blocks_are_explained(lab: Lab) -> None:
    lab.write_spec(workloads={"pf": PROFILED}, blocks=3)
    code, driver = lab.run(fakes={"perf": str(write_perf(lab.directory, hot=40))})
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    assert len(data.trials) == 6
    for trial in data.trials:
        counters = trial.facts["profile"]["counters"]
        assert counters == {"task-clock": 1e9, "instructions": 4e6, "cycles": 2e6}
    lab.assert_nothing_left()
    (results,) = json.loads(printed(lab, "explain", "base", "changed", "--json"))
    assert (results["workload"], results["blocks"], results["samples"]) == ("pf", 3, 3 * (5 + 44))
    hot, cold = sorted(results["functions"], key=lambda row: -row["difference"])
    assert (hot["thread"], hot["function"], cold["function"]) == ("front-end", "hot", "cold")
    assert hot["difference"] > 0 > cold["difference"]
    assert results["events"]["ipc"]["baseline"] == pytest.approx(2.0)
    text = printed(lab, "explain", "base", "changed", "--all")
    assert "instructions per cycle" in text
    assert "front-end  hot" in text
    assert printed(lab, "profile").splitlines() == [
        "front-end;kv::run(int);cold 12",
        "front-end;kv::run(int);hot 3",
    ]
    both = printed(lab, "profile", "--variant", "changed", "--against", "base")
    assert both.splitlines()[1] == "front-end;kv::run(int);hot 3 120"


def printed(lab: Lab, command: str, *words: str) -> str:
    result = CliRunner().invoke(main, [command, *words, "--out", str(lab.out)])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(lab: Lab, code: int, command: str, *words: str) -> str:
    result = CliRunner().invoke(main, [command, *words, "--out", str(lab.out)])
    assert result.exit_code == code
    return result.stderr


@pytest.mark.parametrize("missing", [True, False])
def test_a_host_that_cannot_record_is_refused_before_anything_starts(
    lab: Lab, missing: bool
) -> None:
    lab.write_spec(workloads={"pf": PROFILED}, blocks=1)
    perf = write_perf(lab.directory, refuses="Access to performance monitoring is limited.")
    code, driver = lab.run(fakes={"perf": "/nowhere/perf" if missing else str(perf)})
    output = driver.stderr()
    assert code == 3
    assert not driver.of("BuildStarted")
    assert len(output.splitlines()) == 2, "a sentence and a hint"
    if missing:
        assert output.startswith(
            "error: here: perf is not installed\nhint: apt-get install linux-perf"
        )
    else:
        assert "error: here: " in output
        assert "Access to performance" in output or "perf_event_paranoid is" in output
    assert "remove `profile` from workload pf" in output
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_perf_that_dies_fails_the_trial(lab: Lab) -> None:
    lab.write_spec(workloads={"pf": PROFILED}, blocks=1)
    perf = write_perf(lab.directory, dies="failed to mmap")
    code, driver = lab.run(fakes={"perf": str(perf)})
    assert code == EXIT_FAILED, driver.stderr()
    trials = lab.stored().trials
    failed = [trial for trial in trials if trial.status == "failed"]
    assert failed
    assert all("perf on here ended early (exit 3)" in t.reason for t in failed)
    assert all("failed to mmap" in t.reason for t in failed)
    lab.assert_nothing_left()


@pytest.mark.long
@pytest.mark.parametrize("dies", ["Couldn't create thread/CPU maps: No such process", " "])
def test_a_program_that_ends_before_perf_begins_has_an_empty_profile(lab: Lab, dies: str) -> None:
    bench = {"type": "microbench", "program": "checkpoint_bench", "profile": "perf"}
    lab.write_spec(
        workloads={"bench": {**bench, "schedule": "sequential"}},
        variants={"base": variant(bench_sleep=1), "changed": variant(bench_sleep=1)},
        primary=["CheckpointBench/GetCursorsToDrop/1"],
        blocks=1,
    )
    code, driver = lab.run(fakes={"perf": str(write_perf(lab.directory, dies=dies))})
    assert (code, driver.stderr()) == (0, "")
    assert [trial.facts["profile"] for trial in lab.stored().trials] == [{"samples": 0}] * 2
    why = refused(lab, EXIT_FAILED, "explain", "base", "changed")
    assert "has no samples (lengthen the load)" in why
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_trial_that_was_killed_while_it_was_recorded_is_repeated(lab: Lab) -> None:
    lab.write_spec(workloads={"pf": PROFILED}, blocks=1)
    fakes = {"perf": str(write_perf(lab.directory))}
    driver = lab.start(fakes=fakes)
    driver.wait_for("TrialPhase", phase="access")
    driver.process.kill()
    driver.finish()
    code, resumed = lab.run(resume=True, fakes=fakes)
    assert (code, resumed.stderr()) == (0, "")
    ok = [trial for trial in lab.stored().trials if trial.status == "ok"]
    assert {t.variant: t.facts["profile"]["samples"] for t in ok} == {"base": 5, "changed": 8}
    lab.assert_nothing_left()


def test_a_process_behind_ssh_is_recorded_as_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "PROGRAM", str(write_perf(tmp_path)))
    with (
        raised_sshd(tmp_path) as server,
        open_host(server.host_spec(tmp_path / "work"), "ssh", name="far", run_id="r") as host,
    ):
        assert check_perf(host.transport, host.work_dir, "pf") == "cpu-clock"
        engine = host.start(["sleep", "60"], name="e", log_stdout="e.out", log_stderr="e.log")
        profiler = Profiler(open_trial(tmp_path))
        profiler.start(host.transport, host.work_dir, engine.pid)
        assert {p.name for p in host.processes()} == {"e", "profile", "profile-counters"}
        while not Path(host.work_dir, "profile.data").exists():  # perf has begun
            time.sleep(0.01)
        profiler.stop()
        kept = profiler.keep()
        counters = {"task-clock": 1e9, "instructions": 4e6, "cycles": 2e6}
        assert kept.pop("counters", counters) == counters, "none if perf stat was stopped at once"
        assert kept == {
            "event": "cpu-clock", "frequency": 499, "samples": 5, "cut_short": False,
        }  # fmt: skip
        assert (tmp_path / "profile.folded").read_text() == BASE
        engine.stop(0.0)
        assert host.processes() == []


def test_a_load_that_is_too_short_to_be_recorded_leaves_an_empty_profile(tmp_path: Path) -> None:
    profiler = Profiler(open_trial(tmp_path))
    profiler.stop()
    assert profiler.keep() == {"samples": 0}
    assert (tmp_path / "profile.folded").read_text() == ""


def test_a_program_that_a_conductor_started_is_found_by_its_environment(tmp_path: Path) -> None:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as host:
        both = "TMPDIR=/a sleep 60 & TMPDIR=/b sleep 60 & wait"
        conductor = host.start(
            ["sh", "-c", both], name="conductor", log_stdout="c.out", log_stderr="c.log"
        )
        results = [find_child(host.transport, conductor, f"TMPDIR={at}") for at in ("/a", "/b")]
        assert None not in results
        assert len(set(results)) == 2
        assert "TMPDIR=/b" in Path(f"/proc/{results[1]}/environ").read_text().split("\0")
        conductor.stop(0.0)
        assert find_child(host.transport, conductor, "TMPDIR=/a") is None


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    """A build of the real engine; skipped where perf cannot record."""
    directory = str(built("kv_engine"))
    with open_host(HostSpec(work_dir=str(tmp_path / "probe")), "local") as host:
        try:
            check_perf(host.transport, host.work_dir, "pf")
        except HostError as error:
            pytest.skip(f"{error} ({error.hint})")
    return directory


@pytest.mark.long
def test_the_real_engine_under_the_real_perf(lab: Lab, artifact: str, tmp_path: Path) -> None:
    load = {**PROFILED, "items": 2000, "duration": 2, "ramp": 0.5, "value_size": 256}
    bench = {
        "type": "microbench", "program": "checkpoint_bench", "profile": "perf",
        "filter": "GetCursorsToDrop/1000$", "min_time": 2,
    }  # fmt: skip
    lab.write_spec(
        workloads={
            "pf": load,
            "plain": {**load, "profile": None},
            "bench": bench,
            "alone": {**bench, "schedule": "sequential"},
        },
        variants={"base": variant(), "changed": variant(x=1)},
        engine={"vbuckets": 16, "quota_mb": 64},
        blocks=1,
        relink="never",
        primary=["ops_per_s"],
    )
    code, driver = lab.run(fakes={"artifact": artifact})
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    recorded = [trial for trial in data.trials if trial.workload != "plain"]
    assert len(recorded) == 6
    for trial in data.trials:
        if trial.workload == "plain":
            assert "profile" not in trial.facts
            continue
        taken = trial.facts["profile"]
        assert taken["samples"] >= 1  # on a busy host perf gets few
        assert taken["counters"]["task-clock"] > 0
        folded = (lab.out / trial.raw_dir / "profile.folded").read_text()
        if trial.workload == "pf":
            assert "front-end;" in folded
            assert "kv::" in folded
        else:
            assert "kv::(anonymous namespace)::getCursorsToDrop" in folded
    report = build_report(data)
    assert {str(pair.case) for pair in report.profiled} == {"pf · persistent", "bench", "alone"}
    page = write_html(report, data, tmp_path / "page.html").read_text()
    assert page.count('<svg class="flame"') == 6
    lab.assert_nothing_left()
