"""Whole experiments with fake programs that really run: what is stored, in which order, and what a failure does."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.plan import make_plan
from perfrunner.results import ResultStore
from perfrunner.spec.loader import load_spec
from perfrunner.spec.units import cpu_list
from tests.support.fakes import APPEND, PILLOWFIGHT, Driver, Lab, spec_text, variant
from tests.support.ports import free_ports

pytestmark = pytest.mark.integration


def planned(lab: Lab) -> tuple[TrialKey, ...]:
    return make_plan(load_spec(lab.spec_path, [], None), 7).trials


def test_a_whole_experiment_is_stored_with_all_that_it_left(lab: Lab) -> None:
    lab.write_spec(
        workloads={"pf": PILLOWFIGHT, "app": APPEND}, buckets=["persistent", "ephemeral"], blocks=1
    )
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    assert data.experiment.state == "done"
    assert data.experiment.facts["hosts"]["here"]["kernel"] == os.uname().release
    assert [build.variant for build in data.builds] == ["base", "changed"]
    assert len(data.trials) == 8
    for trial in data.trials:
        assert (trial.status, trial.reason) == ("ok", "")
        assert {"ops_per_s", "fragmentation_rss", "fragmentation_mapped", "mem_used_bytes"} <= set(
            trial.metrics
        )
        kept = {path.name for path in (lab.out / trial.raw_dir).iterdir()}
        assert {
            "engine.log",
            "client.json",
            "slices.json",
            "samples.jsonl",
            "engine-stat.json",
            "reproduce.sh",
        } <= kept
    lab.assert_nothing_left()
    assert not list((lab.work / "runs").iterdir())


PREPARED = [
    ("PlanReady", None), ("HostReady", "here"),
    ("BuildStarted", "base"), ("BuildFinished", "base"),
    ("BuildStarted", "changed"), ("BuildFinished", "changed"),
    ("SettingsCheckPassed", "base"), ("SettingsCheckPassed", "changed"),
    ("BlockStarted", None),
]  # fmt: skip
PHASES = [("TrialPhase", p) for p in ("start", "populate", "persist", "access", "settle", "stop")]


def sequence(driver: Driver) -> list[tuple[str, str | None]]:
    return [
        (event["kind"], event.get("variant") or event.get("phase") or event.get("host"))
        for event in driver.events
        if event["kind"] not in ("BuildProgress", "Eta")
    ]


@pytest.mark.parametrize(
    "home",
    # The directory of the results has such a name in both.
    [pytest.param(False, id="results", marks=pytest.mark.long), pytest.param(True, id="home")],
)
def test_directories_may_have_names_that_are_not_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: bool
) -> None:
    directory = tmp_path / os.fsdecode(b"caf\xe9 %3f?#")
    directory.mkdir()
    lab = Lab(directory)
    if home:
        monkeypatch.setenv("HOME", str(directory))
    lab.spec_path.write_text(spec_text(Path("~/work") if home else tmp_path / "work"))
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    data = lab.stored()
    assert {trial.status for trial in data.trials} == {"ok"}
    for trial in data.trials:
        script = (lab.out / trial.raw_dir / "reproduce.sh").read_bytes()
        assert not home or b"caf\xe9" in script


@pytest.mark.long
def test_the_exact_sequence_of_what_is_run_alone(lab: Lab) -> None:
    lab.write_spec(blocks=1, schedule="sequential")
    code, driver = lab.run()
    assert code == 0
    first, second = (t.variant for t in planned(lab))
    assert sequence(driver) == [
        *PREPARED,
        ("TrialStarted", first), *PHASES, ("TrialFinished", first),
        ("TrialStarted", second), *PHASES, ("TrialFinished", second),
        ("RunFinished", None),
    ]  # fmt: skip
    assert {t.facts["schedule"] for t in lab.stored().trials} == {"sequential"}


def test_the_exact_sequence_of_what_is_run_side_by_side(lab: Lab) -> None:
    lab.write_spec(blocks=1)
    code, driver = lab.run()
    assert code == 0
    first, second = (t.variant for t in planned(lab))
    assert sequence(driver) == [
        *PREPARED,
        ("TrialStarted", first), *PHASES, ("TrialFinished", first), ("TrialFinished", second),
        ("RunFinished", None),
    ]  # fmt: skip
    assert driver.of("TrialStarted")[0]["others"] == [second]
    single, other = lab.stored().trials
    assert (single.variant, single.facts["slot"], single.group) == (first, 1, 1)
    assert (other.variant, other.facts["slot"], other.group) == (second, 2, 1)
    assert single.facts["variants"] == other.facts["variants"] == [first, second]
    assert single.facts["seed"] == other.facts["seed"], "the same keys and values"
    assert single.started_at == other.started_at
    slices = json.loads((lab.out / single.raw_dir / "slices.json").read_text())
    assert len(slices["ops"]) == single.facts["rounds"]


def test_both_variants_are_alive_while_either_is_loaded(lab: Lab) -> None:
    lab.write_spec(blocks=1)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    commands = " ".join(lab.processes())
    assert driver.finish() == 0
    assert len(set(re.findall(r'--port-file=([^\s"]+)', commands))) == 2


@pytest.mark.long
def test_variants_that_may_not_all_live_at_once_form_groups_with_the_baseline(lab: Lab) -> None:
    variants = {name: variant() for name in ("base", "b", "c", "d")}
    lab.write_spec(blocks=1, variants=variants, limits={"group_size": 3})
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    groups: dict[int, set[str]] = {}
    for trial in lab.stored().trials:
        groups.setdefault(trial.group, set()).add(trial.variant)
    assert sorted(groups) == [1, 2]
    assert groups[1] & groups[2] == {"base"}
    assert groups[1] | groups[2] == set(variants)


def test_what_does_not_fit_into_memory_runs_alone_and_says_so(lab: Lab) -> None:
    lab.write_spec(blocks=1, limits={"memory": "100M"})
    code, _ = lab.run()
    assert code == 0
    assert {t.group for t in lab.stored().trials} == {0}
    grouping = lab.stored().experiment.facts["groupings"]["pf"]
    assert grouping["schedule"] == "sequential"
    assert "a variant needs" in grouping["why"]


@pytest.mark.long
@pytest.mark.timeout(400)  # a hundred fake programs, each an interpreter of its own
def test_one_variant_and_twelve_variants_are_groups_too(lab: Lab) -> None:
    lab.write_spec(blocks=1, variants={"base": variant()})
    assert lab.run()[0] == 0
    variants = {"base": variant(), **{f"v{n}": variant() for n in range(11)}}
    lab.write_spec(blocks=1, variants=variants)
    assert lab.run()[0] == 0
    with ResultStore.open(lab.out, create=False) as store:
        alone, many = (store.load(summary.experiment.id).trials for summary in store.list())
    assert [(t.status, t.group) for t in alone] == [("ok", 1)]
    assert sorted(t.facts["slot"] for t in many) == list(range(1, 13))
    assert {t.status for t in many} == {"ok"}
    assert len({t.facts["port"] for t in many}) == 12
    lab.assert_nothing_left()


@pytest.mark.long
def test_on_one_cpu_engine_and_load_share_it(lab: Lab) -> None:
    lab.write_spec(blocks=1)
    single = min(os.sched_getaffinity(0))
    code, driver = lab.run(fakes={"cpus": [single]})
    assert (code, driver.stderr()) == (0, "")
    (host,) = lab.stored().experiment.facts["hosts"].values()
    assert host["cpus_allowed"] == str(single)
    trials = lab.stored().trials
    assert [(t.status, t.group) for t in trials] == [("ok", 1), ("ok", 1)]
    assert {json.dumps(t.facts["cpus"]) for t in trials} == {'{"engine": "", "client": ""}'}


def test_every_trial_is_a_fresh_engine_process_in_the_order_of_the_plan(lab: Lab) -> None:
    lab.write_spec()
    code, driver = lab.run()
    assert code == 0
    wanted = [(t.block, t.workload, t.bucket, t.variant) for t in planned(lab)]
    finished = [
        (e["block"], e["workload"], e["bucket"], e["variant"]) for e in driver.of("TrialFinished")
    ]
    assert finished == wanted
    pids = set()
    for trial in lab.stored().trials:
        stats = json.loads((lab.out / trial.raw_dir / "engine-stat.json").read_text())
        pids.add(stats[""]["pid"])
    assert len(pids) == len(wanted)


def test_the_password_is_nowhere_to_be_seen(lab: Lab) -> None:
    lab.write_spec(blocks=1)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    (experiment,) = (lab.work / "runs").iterdir()
    password = (experiment / "secret" / "password").read_text()
    for name in ("password", "users.json"):
        assert (experiment / "secret" / name).stat().st_mode & 0o777 == 0o600
    commands = "".join(lab.processes())
    assert "kv_engine" in commands
    assert password not in commands
    assert driver.finish() == 0
    assert not experiment.exists()
    for path in lab.directory.rglob("*"):
        if path.is_file():
            assert password.encode() not in path.read_bytes(), path


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
def test_reproduce_runs_by_itself(lab: Lab, schedule: str) -> None:
    lab.write_spec(blocks=1, schedule=schedule)
    assert lab.run()[0] == 0
    trial = lab.stored().trials[0]
    done = subprocess.run(
        ["bash", str(lab.out / trial.raw_dir / "reproduce.sh")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = done.stdout.split("output goes to ")[1].strip()
    printed = next((lab.directory / out).glob("client*.out")).read_text()
    report = json.loads(printed)
    variants = [a["report"] for a in report["group"]["variants"]] if "group" in report else [report]
    assert len(variants) == (2 if schedule == "interleaved" else 1)
    assert all(variant["access"]["ops"] > 0 for variant in variants)
    lab.assert_nothing_left()


@pytest.mark.long
def test_each_variant_has_a_port_of_its_own_from_the_one_that_the_spec_names(lab: Lab) -> None:
    port = free_ports(2)
    lab.write_spec(blocks=1, engine={"vbuckets": 16, "quota_mb": 64, "port": port})
    code, driver = lab.run()
    assert [t.reason for t in lab.stored().trials if t.status == "failed"] == []
    assert (code, driver.stderr()) == (0, "")
    by_slot = {t.facts["slot"]: t.facts["port"] for t in lab.stored().trials}
    assert by_slot == {1: port, 2: port + 1}


def test_a_port_in_use_is_refused_before_anything_is_built(lab: Lab) -> None:
    port = free_ports(2)
    with socket.create_server(("127.0.0.1", port + 1)):
        lab.write_spec(blocks=1, engine={"vbuckets": 16, "port": port})
        code, driver = lab.run()
    assert code == 3
    second = f"error: here: port {port + 1} is in use\n"
    assert driver.stderr().startswith(second)
    assert driver.of("BuildProgress") == []


@pytest.mark.long
def test_a_port_that_is_taken_during_that_is_reported_clearly(lab: Lab) -> None:
    port = free_ports(2)
    lab.write_spec(blocks=1, engine={"vbuckets": 16, "port": port})
    driver = lab.start(fakes={"build_sleep": 1})
    driver.wait_for("BuildProgress")
    with socket.create_server(("127.0.0.1", port)):
        assert driver.finish() == 3
    failed = [t.reason for t in lab.stored().trials if t.status == "failed"]
    assert f"cannot listen on port {port}: Address already in use" in failed[0]


@pytest.mark.parametrize("role", ["engine", "client"])
def test_a_cpu_that_the_host_has_not_is_refused_before_anything_is_built(
    lab: Lab, role: str
) -> None:
    lab.write_spec(**{role: {"cpus": 9000}})
    code, driver = lab.run()
    assert code == 3
    allowed = cpu_list(os.sched_getaffinity(0))
    assert driver.stderr().startswith(
        f"error: here: {role}.cpus is 9000, but only CPUs {allowed} are available\nhint: --set {role}.cpus="
    )
    assert driver.of("BuildProgress") == []


def test_a_build_that_fails_costs_only_its_variant(lab: Lab) -> None:
    lab.write_spec(variants={"base": variant(), "changed": variant(x=1), "other": variant(x=2)})
    code, driver = lab.run(fakes={"build_fails": ["changed"]})
    assert code == 3
    assert [event["variant"] for event in driver.of("BuildFailed")] == ["changed"]
    data = lab.stored()
    assert [t.status for t in data.trials if t.variant != "changed"] == ["ok"] * 4
    (first, second) = [t for t in data.trials if t.variant == "changed"]
    assert first.status == second.status == "failed"
    assert first.reason == "the build failed: the compiler refused changed"
    assert data.experiment.state == "done"


@pytest.mark.long
@pytest.mark.parametrize("fails", [["base"], ["changed"], ["changed", "other"]])
def test_with_nothing_left_to_compare_nothing_is_run(lab: Lab, fails: list[str]) -> None:
    variants = ["base", "changed", *fails[1:]]
    lab.write_spec(variants={name: variant(x=x) for x, name in enumerate(variants)})
    code, driver = lab.run(fakes={"build_fails": fails})
    assert code == 3
    last = fails[-1]
    assert driver.stderr().startswith(f"error: variant {last}: the compiler refused {last}")
    assert [event["variant"] for event in driver.of("BuildFailed")] == fails[:-1]
    assert lab.stored().trials == ()
    assert lab.stored().experiment.state == "failed"


def test_a_setting_that_does_not_read_back_stops_the_run_before_the_first_trial(lab: Lab) -> None:
    lab.write_spec()
    code, driver = lab.run(fakes={"settings_check_fails": ["changed"]})
    assert code == 3
    assert "error: changed: opt.x should be 1 but reads 0" in driver.stderr()
    assert "changed: opt.x should be 1 but reads 0" in lab.stored().experiment.why_failed
    assert driver.of("TrialStarted") == []
    assert lab.stored().trials == ()


@pytest.mark.long
def test_two_runs_in_one_directory(lab: Lab) -> None:
    lab.write_spec()
    first = lab.start()
    first.wait_for("TrialStarted")
    code, second = lab.run()
    assert code == 2
    assert f"in use by another run (pid {first.process.pid})" in second.stderr()
    assert first.finish() == 0
    assert len(lab.stored().trials) == 4


@pytest.mark.long
def test_a_precision_ends_the_run_early_or_goes_on(lab: Lab) -> None:
    pf = {**PILLOWFIGHT, "duration": 2, "ramp": 0}
    lab.write_spec(blocks=12, precision="20%", workloads={"pf": pf})
    code, driver = lab.run()
    assert code == 0
    last = driver.of("Precision")[-1]
    assert (last["block"], last["decision"]) == (10, "stop")
    assert max(t.block for t in lab.stored().trials) == 10


@pytest.mark.long
def test_what_sampling_costs_is_measured_once_at_the_end(lab: Lab) -> None:
    lab.write_spec(workloads={"pf": PILLOWFIGHT, "app": APPEND}, blocks=1, sampling_check=True)
    code, driver = lab.run()
    assert (code, driver.stderr()) == (0, "")
    (event,) = driver.of("SamplingCheck")
    assert (event["variant"], event["cases"]) == (
        "base",
        [["pf", "persistent"], ["app", "persistent"]],
    )
    data = lab.stored()
    assert len(data.trials) == 4, "no trial of the comparison"
    records = data.experiment.facts["sampling_check"]
    assert [(r["workload"], r["status"]) for r in records] == [("pf", "ok"), ("app", "ok")]
    assert all(r["bare"]["ops_per_s"] > 0 < r["sampled"]["ops_per_s"] for r in records)
    trials = lab.out / data.experiment.id / "trials"
    assert all(r["interleaved"] for r in records)
    script = (trials / "0-pf-persistent-base" / "reproduce.sh").read_text()
    assert "--interval-ms=3600000" in script
    assert "--interval-ms=1000" in script
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_run_that_was_killed_in_the_sampling_check_does_it_again(lab: Lab) -> None:
    lab.write_spec(blocks=1, sampling_check=True)
    driver = lab.start()
    driver.wait_for("SamplingCheck")
    driver.wait_for("TrialPhase", phase="access")
    driver.process.kill()
    driver.finish()
    code, resumed = lab.run(resume=True)
    assert (code, resumed.stderr()) == (0, "")
    assert len(resumed.of("TrialStarted")) == 0
    data = lab.stored()
    assert data.experiment.state == "done"
    assert len(data.experiment.facts["sampling_check"]) == 1
    lab.assert_nothing_left()
