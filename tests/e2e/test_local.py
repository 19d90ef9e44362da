"""perfrunner run on this machine: build, check, measure, report, with the system's allocator only."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from perfrunner.spec.switches import own_table
from tests.e2e.conftest import BUILD_TIMEOUT_S, OTHER_OPTIONS, RealLab, variants

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]


def test_a_tiny_experiment_from_the_spec_to_the_report(real: RealLab) -> None:
    real.write_spec(buckets=["persistent", "ephemeral"])
    done, report = real.json()
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 8, "discarded": 0, "failed": 0}
    metrics = {row["metric"] for row in report["results"]}
    assert {
        "ops_per_s",
        "fragmentation_rss",
        "fragmentation_mapped",
        "server_cpu_us_per_op",
    } <= metrics
    data = real.stored()
    assert data.experiment.state == "done"
    for trial in data.trials:
        matches = trial.metrics
        where = f"{trial.workload} {trial.bucket} {trial.variant}"
        assert matches["ops_per_s"] > 1000, where
        assert 0 < matches["mem_used_bytes"] < matches["rss_bytes"], where
        assert 0 < matches["fragmentation_rss"] < 100, where
        assert matches["fragmentation_rss"] == pytest.approx(
            100 * (1 - matches["mem_used_bytes"] / matches["rss_bytes"])
        )
        assert 0 < matches["latency_get_p50_us"] <= matches["latency_get_p99_us"], where
        if trial.workload == "pillowfight":
            assert 0 < matches["server_cpu_us_per_op"] < 1000, where
        else:  # so short that the kernel may not have counted one tick of it
            assert 0 < matches.get("server_cpu_us_per_op", 1) < 1000, where
            live = trial.facts["live_bytes"]
            assert isinstance(live, int)
            assert live < matches["mem_used_bytes"] < 3 * live, where
    assert (real.out / data.experiment.id / "report.html").exists()
    real.assert_nothing_left()
    # the commands of a trial run by themselves
    script = real.out / data.trials[0].raw_dir / "reproduce.sh"
    again = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert again.returncode == 0, again.stderr
    real.assert_nothing_left()


@pytest.mark.long
def test_every_build_switch_is_compiled_in(real: RealLab) -> None:
    assert [name for name, s in own_table().items() if OTHER_OPTIONS[name] == s.default] == []
    real.write_spec(
        variants=variants(OTHER_OPTIONS),
        workloads={"append": {"type": "append", "items": 1000, "rounds": 1, "settle": 0}},
        sampling_check=True,
    )
    done = real.perfrunner()
    assert done.returncode == 0, done.stderr
    stored = real.stored()
    (check,) = stored.experiment.facts["sampling_check"]
    assert (check["status"], check["reason"]) == ("ok", "")
    (build,) = (build for build in stored.builds if build.variant == "glibc")
    assert {f"options.{name}": value for name, value in OTHER_OPTIONS.items()}.items() <= (
        build.settings.items()
    )


@pytest.mark.long
def test_an_aa_run_gives_later_runs_their_noise_floor(real: RealLab) -> None:
    latency = {"type": "latency", "items": 20_000, "dcp": "none"}
    primary = "Latency/Get/p95_us"
    real.write_spec(workloads={"latency": latency}, primary=[primary])
    done, before = real.json()
    assert done.returncode == 0, done.stderr
    assert before["facts"]["noise_floor"] == []
    done, aa = real.json("--repeats", "3", verb="aa")
    assert done.returncode == 0, done.stderr
    assert aa["trials"] == {"ok": 6, "discarded": 0, "failed": 0}
    (floor,) = [f for f in aa["facts"]["noise_floor"] if f["metric"] == primary]
    assert floor["blocks"] == 3
    assert floor["floor"] > 0
    done, after = real.json()
    assert done.returncode == 0, done.stderr
    assert floor in after["facts"]["noise_floor"]
    assert floor["source"] == aa["experiment"]


@pytest.mark.long
def test_an_engine_killed_in_mid_trial_fails_that_trial_only(real: RealLab) -> None:
    real.write_spec(
        workloads={
            "pillowfight": {"type": "pillowfight", "items": 5000, "duration": 4, "settle": 0}
        }
    )
    run = real.popen("--json")
    deadline = time.monotonic() + BUILD_TIMEOUT_S
    victim = None
    while victim is None and time.monotonic() < deadline and run.poll() is None:
        lines = real.processes()
        driving = any("--no-population" in line for line in lines)
        engines = [line for line in lines if "bin/kv_engine" in line.split(" ")[1]]
        victim = int(engines[0].split()[0]) if driving and engines else None
        time.sleep(0.05)
    assert victim is not None, run.communicate()[1]
    os.kill(victim, signal.SIGKILL)
    _, stderr = run.communicate(timeout=300)
    assert run.returncode == 3, stderr
    data = real.stored()
    (failed,) = [trial for trial in data.trials if trial.status == "failed"]
    assert "died during access (killed by SIGKILL)" in failed.reason
    assert {"engine.log", "reproduce.sh"} <= {p.name for p in (real.out / failed.raw_dir).iterdir()}
    assert sum(trial.status == "ok" for trial in data.trials) >= 2
    real.assert_nothing_left()


@pytest.mark.long
def test_ctrl_c_then_resume(real: RealLab) -> None:
    real.write_spec(
        workloads={"append": {"type": "append", "items": 2000, "rounds": 1, "settle": 0}}, blocks=3
    )
    run = real.popen()
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("trial "):
            break
    os.kill(run.pid, signal.SIGINT)
    _, stderr = run.communicate(timeout=600)
    assert run.returncode == 130, stderr
    assert "--resume" in stderr
    real.assert_nothing_left()
    before = len(real.stored().trials)
    assert 1 <= before < 6
    done = real.perfrunner("--resume")
    assert done.returncode == 0, done.stderr
    assert len(real.stored().trials) == 6
    assert real.stored().experiment.state == "done"
