"""What happens to a run when its hosts fail, or perfrunner itself: on real SSH hosts, with fake engines."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perfrunner.results import ExperimentData, ResultStore
from tests.support import fakes
from tests.support.fakes import Driver, processes_of, variant
from tests.support.netlab import Lab

pytestmark = pytest.mark.integration

NODES, CLIENTS = ["lab1", "lab2"], ["lab3"]
BLOCKS = 2
NOTICED_S = 10.0
KILLS = 20


@dataclass
class Run(fakes.Lab):
    """A directory with a spec whose hosts are those of the lab."""

    drivers: list[Driver] = field(default_factory=list)

    def start(self, **kwargs: Any) -> Driver:
        self.drivers.append(super().start(**kwargs))
        return self.drivers[-1]


def write(run: Run, lab: Lab, sleep: float, **changes: object) -> None:
    arm = variant(sleep=sleep)
    run.write_spec(
        cluster=lab.cluster_document(NODES, CLIENTS, replicas=1),
        variants={"base": arm, "changed": arm},
        blocks=BLOCKS,
        **changes,
    )


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Iterator[Run]:
    begun = Run(tmp_path)
    yield begun
    for driver in begun.drivers:
        driver.process.kill()  # of a test that failed: it would hold the hosts
        driver.process.wait()


def experiments(run: Run) -> list[ExperimentData]:
    """None where a run was killed before it had a plan."""
    with ResultStore.open(run.out) as store:
        return [store.load(summary.experiment.id) for summary in store.list()]


def stored(run: Run) -> ExperimentData:
    (data,) = experiments(run)
    return data


def assert_complete(run: Run, lab: Lab) -> None:
    data = stored(run)
    assert data.experiment.state == "done"
    counted = Counter((t.block, t.variant) for t in data.trials if t.status == "ok")
    assert counted == {(b, v): 1 for b in range(1, BLOCKS + 1) for v in ("base", "changed")}
    lab.assert_idle()


def begin(run: Run, phase: str) -> Driver:
    driver = run.start()
    driver.wait_for("TrialPhase", phase=phase)
    return driver


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "victim", "phase"),
    [
        ("cut", "lab1", "start"),
        ("cut", "lab2", "populate"),
        ("cut", "lab3", "access"),
        ("power_off", "lab1", "access"),
        ("freeze", "lab3", "populate"),
    ],
)
def test_a_host_that_goes_costs_its_block_and_the_run_goes_on_when_it_is_back(
    lab: Lab, run: Run, fault: str, victim: str, phase: str
) -> None:
    write(run, lab, sleep=2)
    driver = begin(run, phase)
    began = time.monotonic()
    getattr(lab, fault)(victim)
    told = driver.wait_for("Warned")
    # It is noticed in less than NOTICED_S (test_lab.py); clearing up after it takes a dead host's time-outs once more.
    assert time.monotonic() - began < NOTICED_S + 30
    assert "waiting for the hosts" in told["message"]
    if fault == "power_off":
        lab.boot(victim)
    else:
        lab.heal(victim)
        lab.thaw(victim)
    assert driver.finish(200) == 0, driver.stderr()
    assert_complete(run, lab)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_host_whose_sshd_never_notices_is_taken_again(
    lab: Lab, run: Run, stock_sshd: str
) -> None:
    write(run, lab, sleep=2)
    driver = begin(run, "access")
    lab.cut(stock_sshd)
    driver.wait_for("Warned")
    lab.heal(stock_sshd)
    assert driver.finish(200) == 0, driver.stderr()
    assert_complete(run, lab)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_host_that_comes_back_without_its_work_directory_is_sent_it_again(
    lab: Lab, run: Run
) -> None:
    work = str(lab.layout.work_dir)
    lab.run("lab1", "mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", work)
    write(run, lab, sleep=2)
    driver = begin(run, "access")
    lab.power_off("lab1")
    driver.wait_for("Warned")
    lab.boot("lab1")
    assert driver.finish(200) == 0, driver.stderr()
    assert_complete(run, lab)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_that_died_with_its_link_is_resumed_where_no_sshd_noticed(
    lab: Lab, run: Run, stock_sshd: str
) -> None:
    write(run, lab, sleep=2)
    driver = begin(run, "access")
    lab.cut(stock_sshd)
    driver.process.kill()
    driver.process.wait()
    time.sleep(NOTICED_S)  # the last of its packets is given up
    lab.heal(stock_sshd)
    code, driver = run.run(resume=True)
    assert code == 0, driver.stderr()
    assert_complete(run, lab)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", ["build", "proof"])
def test_a_host_that_is_cut_before_the_first_trial_costs_none(
    lab: Lab, run: Run, tmp_path: Path, moment: str
) -> None:
    write(run, lab, sleep=0.1)
    go_on = tmp_path / "go on"
    fakes = {"build_sleep": 1.0} if moment == "build" else {"proof_waits": str(go_on)}
    driver = run.start(fakes=fakes)
    driver.wait_for("BuildStarted" if moment == "build" else "BuildFinished", variant="changed")
    while moment == "proof" and not any("/go on" in p for p in processes_of(lab.layout.work_dir)):
        assert driver.process.poll() is None, driver.stderr()
        time.sleep(0.02)
    lab.cut("lab1")
    driver.wait_for("Warned")
    lab.heal("lab1")
    go_on.touch()  # for the next proofs
    assert driver.finish(200) == 0, driver.stderr()
    assert_complete(run, lab)
    assert all(t.attempt == 1 for t in stored(run).trials)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_host_that_is_cut_in_the_sampling_check_is_waited_for(lab: Lab, run: Run) -> None:
    """A dead host: what clears up behind the trial cannot connect either, which is no failure of the check."""
    write(run, lab, sleep=1, sampling_check=True)
    driver = run.start()
    driver.wait_for("SamplingCheck")
    driver.wait_for("TrialPhase", phase="access")
    lab.cut("lab1")
    assert "waiting for the hosts" in driver.wait_for("Warned")["message"]
    lab.heal("lab1")
    assert driver.finish(200) == 0, driver.stderr()
    assert_complete(run, lab)
    records = stored(run).experiment.facts["sampling_check"]
    assert [record["status"] for record in records] == ["ok"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_over_long_and_bad_cables_is_slower_and_nothing_else(lab: Lab, run: Run) -> None:
    for name in (*NODES, *CLIENTS):
        lab.delay(name, 10, loss_percent=1)
    write(run, lab, sleep=0.1)
    assert run.start().finish(250) == 0
    for name in (*NODES, *CLIENTS):
        lab.unlimited(name)
    assert_complete(run, lab)
    assert all(t.attempt == 1 for t in stored(run).trials)


@pytest.mark.slow
def test_an_engine_that_is_killed_costs_its_trial_only(lab: Lab, run: Run, tmp_path: Path) -> None:
    dying = variant(sleep=0.05, die_in="access", once=tmp_path / "once")
    run.write_spec(
        cluster=lab.cluster_document(NODES, CLIENTS, replicas=1),
        variants={"base": dying, "changed": variant(sleep=0.05)},
        blocks=BLOCKS,
    )
    code, _ = run.run()
    assert code == 3
    trials = stored(run).trials
    (failed,) = [t for t in trials if t.status == "failed"]
    assert failed.variant == "base"
    assert "SIGKILL" in failed.reason
    again = {(t.block, t.variant): t.status for t in trials if t.block == failed.block}
    assert set(again.values()) == {"ok"}, "its block is done again"
    assert {(t.block, t.variant) for t in trials if t.status == "ok"} == {
        (b, v) for b in range(1, BLOCKS + 1) for v in ("base", "changed")
    }
    lab.assert_idle()


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Callable[[str], None]]:
    """small_disk(size) puts lab1's work directory on a disk of its own."""
    work_dir = str(lab.layout.work_dir)

    def mount(size: str) -> None:
        lab.run("lab1", "mkdir", "-p", work_dir)
        lab.run("lab1", "mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", work_dir)

    yield mount
    lab.run("lab1", "umount", "-l", work_dir)


@pytest.mark.slow
def test_a_full_disk_on_a_host_ends_the_run_with_its_name(
    lab: Lab, run: Run, small_disk: Callable[[str], None]
) -> None:
    small_disk("16k")
    write(run, lab, sleep=0.1)
    code, driver = run.run()
    assert code == 3
    said = driver.stderr()
    assert "lab1" in said, said
    assert "No space left on device" in said, said
    assert "Traceback" not in said
    lab.assert_idle()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_disk_that_fills_in_the_middle_loses_no_result(
    lab: Lab, run: Run, small_disk: Callable[[str], None]
) -> None:
    small_disk("8m")
    write(run, lab, sleep=1)
    driver = begin(run, "access")
    filler = f"{lab.layout.work_dir}/filler"
    lab.run("lab1", "sh", "-c", f"cat /dev/zero >{filler} 2>/dev/null || :")
    assert driver.finish(200) == 3
    data = stored(run)
    reasons = {t.reason for t in data.trials if t.status == "failed"}
    assert all("No space left on device" in reason for reason in reasons), reasons
    lab.run("lab1", "rm", filler)
    code, driver = run.run(resume=True, run=data.experiment.id)
    assert code == 0, driver.stderr()
    assert_complete(run, lab)


@pytest.mark.parametrize("shared", [True, False], ids=["work directory", "machine"])
def test_two_runs_on_one_host_group(
    lab: Lab, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if not shared:
        monkeypatch.delenv("PERFRUNNER_SHARE_HOST")
    write(run, lab, sleep=30)
    first = begin(run, "populate")
    (tmp_path / "second").mkdir()
    second = Run(tmp_path / "second")
    second.write_spec(cluster=lab.cluster_document(["lab3"], ["lab2"]))
    code, driver = second.run()
    assert code == 3
    said = driver.stderr()
    assert "in use by run" in said
    assert f"pid {first.process.pid}" in said
    os.kill(first.process.pid, signal.SIGINT)
    assert first.finish() == 130
    lab.assert_idle()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_sigkill_at_random_moments(lab: Lab, run: Run) -> None:
    write(run, lab, sleep=0.3)
    draw = random.Random(7)
    killed = 0
    while killed < KILLS:
        driver = run.start(resume=bool(experiments(run)))
        if killed % 2:  # on a busy machine the others may all die before their plan
            driver.wait_for("PlanReady")
        time.sleep(draw.uniform(0.5, 12.0))
        if driver.process.poll() is None:
            os.kill(driver.process.pid, signal.SIGKILL)
        ended = driver.finish()
        assert ended in (0, -signal.SIGKILL), driver.stderr()
        killed += ended == -signal.SIGKILL
        if [e for e in experiments(run) if e.experiment.state == "done"]:  # the next one is killed
            assert_complete(run, lab)
            shutil.rmtree(run.out)
    code, driver = run.run(resume=bool(experiments(run)))
    assert code == 0, driver.stderr()
    assert_complete(run, lab)
