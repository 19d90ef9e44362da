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
from tools.lab import Lab

pytestmark = pytest.mark.integration

NODES, CLIENTS = ["lab1", "lab2"], ["lab3"]
BLOCKS = 2
NOTICED_S = 10.0
KILLS = 20
LINGERS = {
    "persist": "persist",
    "verify replicas": "digest",
    "stop": "stop",
}  # of the fake engine, by phase


@dataclass
class Run(fakes.Lab):
    """A directory with a spec whose hosts are those of the lab."""

    hosts: Lab
    drivers: list[Driver] = field(default_factory=list)

    def start(self, **kwargs: Any) -> Driver:
        self.drivers.append(super().start(**kwargs))
        return self.drivers[-1]

    def write(self, sleep: float, **changes: object) -> None:
        """Two variants whose engines and clients take so long for each phase."""
        chosen = variant(sleep=sleep)
        spec = {
            "cluster": self.hosts.cluster_document(NODES, CLIENTS, replicas=1),
            "variants": {"base": chosen, "changed": chosen},
            "blocks": BLOCKS,
        }
        self.write_spec(**{**spec, **changes})

    def begin(self, phase: str, *, sleep: float = 2) -> Driver:
        """Of such variants; it is in the first trial's `phase`, which lasts so long, whatever it is."""
        chosen = variant(sleep=sleep, lingers=LINGERS.get(phase, ""))
        self.write(
            sleep,
            variants={"base": chosen, "changed": chosen},
            workloads={"pf": {**fakes.PILLOWFIGHT, "settle": sleep * (phase == "settle")}},
            engine={"vbuckets": 16, "quota_mb": 64, "verify": "replicas"},
        )
        driver = self.start()
        driver.wait_for("TrialPhase", phase=phase)
        return driver

    def experiments(self) -> list[ExperimentData]:
        """None where a run was killed before it had a plan."""
        with ResultStore.open(self.out) as store:
            return [store.load(summary.experiment.id) for summary in store.list()]

    def stored(self) -> ExperimentData:
        (data,) = self.experiments()
        return data

    def assert_complete(self) -> None:
        data = self.stored()
        assert data.experiment.state == "done"
        counted = Counter((t.block, t.variant) for t in data.trials if t.status == "ok")
        assert counted == {(b, v): 1 for b in range(1, BLOCKS + 1) for v in ("base", "changed")}
        self.hosts.assert_idle()

    def assert_redone(self, block: int) -> None:
        """Every planned trial was measured, those of this block by a second attempt."""
        latest = {(t.block, t.variant): t for t in self.stored().trials}
        assert set(latest) == {(b, v) for b in range(1, BLOCKS + 1) for v in ("base", "changed")}
        assert {t.status for t in latest.values()} == {"ok"}
        assert {b: {t.attempt for t in latest.values() if t.block == b} for b, _ in latest} == {
            b: {2 if b == block else 1} for b, _ in latest
        }
        self.hosts.assert_idle()

    def assert_ends_well(self, driver: Driver) -> None:
        assert driver.finish(200) == 0, driver.stderr()
        self.assert_complete()


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Iterator[Run]:
    begun = Run(tmp_path, lab)
    yield begun
    for driver in begun.drivers:
        driver.process.kill()  # of a test that failed: it would hold the hosts
        driver.process.wait()


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "victim", "phase"),
    [
        ("cut", "lab1", "start"),
        ("cut", "lab2", "populate"),
        ("cut", "lab3", "access"),
        ("power_off", "lab1", "access"),
        ("freeze", "lab3", "populate"),
        ("cut", "lab1", "persist"),
        ("cut", "lab3", "settle"),
        ("cut", "lab2", "verify replicas"),
        ("cut", "lab2", "stop"),
    ],
)
def test_a_host_that_goes_costs_its_block_and_the_run_goes_on_when_it_is_back(
    lab: Lab, run: Run, fault: str, victim: str, phase: str
) -> None:
    driver = run.begin(phase)
    getattr(lab, fault)(victim)
    messages = driver.wait_for("Warned")
    assert "waiting for the hosts" in messages["message"]
    if fault == "power_off":
        lab.boot(victim)
    else:
        lab.heal(victim)
        lab.thaw(victim)
    run.assert_ends_well(driver)


@pytest.mark.long
def test_a_host_whose_sshd_never_notices_is_taken_again(
    lab: Lab, run: Run, stock_sshd: str
) -> None:
    driver = run.begin("access")
    lab.cut(stock_sshd)
    driver.wait_for("Warned")
    lab.heal(stock_sshd)
    run.assert_ends_well(driver)


@pytest.mark.long
def test_a_host_that_comes_back_without_its_work_directory_is_sent_it_again(
    lab: Lab, run: Run
) -> None:
    work = str(lab.layout.work_dir)
    lab.run("lab1", "mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", work)
    driver = run.begin("access")
    lab.power_off("lab1")
    driver.wait_for("Warned")
    lab.boot("lab1")
    run.assert_ends_well(driver)


@pytest.mark.long
def test_a_run_that_died_with_its_link_is_resumed_where_no_sshd_noticed(
    lab: Lab, run: Run, stock_sshd: str
) -> None:
    driver = run.begin("access")
    lab.cut(stock_sshd)
    driver.process.kill()
    driver.process.wait()
    time.sleep(NOTICED_S)  # the last of its packets is given up
    lab.heal(stock_sshd)
    code, driver = run.run(resume=True)
    assert code == 0, driver.stderr()
    run.assert_complete()


@pytest.mark.long
@pytest.mark.parametrize("moment", ["build", "settings_check"])
def test_a_host_that_is_cut_before_the_first_trial_costs_none(
    lab: Lab, run: Run, tmp_path: Path, moment: str
) -> None:
    run.write(sleep=0.1)
    go_on = tmp_path / "go on"
    fakes = {"build_sleep": 1.0} if moment == "build" else {"settings_check_waits": str(go_on)}
    driver = run.start(fakes=fakes)
    driver.wait_for("BuildStarted" if moment == "build" else "BuildFinished", variant="changed")
    while moment == "settings_check" and not any(
        "/go on" in p for p in processes_of(lab.layout.work_dir)
    ):
        assert driver.process.poll() is None, driver.stderr()
        time.sleep(0.02)
    lab.cut("lab1")
    driver.wait_for("Warned")
    lab.heal("lab1")
    go_on.touch()  # for the next settings checks
    run.assert_ends_well(driver)
    assert all(t.attempt == 1 for t in run.stored().trials)


@pytest.mark.long
def test_a_host_that_is_cut_while_it_is_sent_an_artifact_costs_no_trial(
    lab: Lab, run: Run, tmp_path: Path
) -> None:
    artifact = fakes.write_artifact(tmp_path / "large")
    (artifact / "bin" / "padding").write_bytes(random.Random(7).randbytes(4 << 20))
    lab.limit("lab1", 4)
    run.write(sleep=0.1)
    driver = run.start(fakes={"artifact": str(artifact)})
    arriving = f"find {lab.layout.work_dir} -type f -size +500k 2>/dev/null || :"
    while not lab.run("lab1", "sh", "-c", arriving):
        assert driver.process.poll() is None, driver.stderr()
        time.sleep(0.02)
    lab.cut("lab1")
    assert "waiting for the hosts" in driver.wait_for("Warned")["message"]
    lab.unlimited("lab1")
    lab.heal("lab1")
    run.assert_ends_well(driver)
    assert all(t.attempt == 1 for t in run.stored().trials)


@pytest.mark.long
def test_a_host_that_is_cut_in_the_sampling_check_is_waited_for(lab: Lab, run: Run) -> None:
    """A dead host: what clears up behind the trial cannot connect either, which is no failure of the check."""
    run.write(sleep=1, sampling_check=True)
    driver = run.start()
    driver.wait_for("SamplingCheck")
    driver.wait_for("TrialPhase", phase="access")
    lab.cut("lab1")
    assert "waiting for the hosts" in driver.wait_for("Warned")["message"]
    lab.heal("lab1")
    run.assert_ends_well(driver)
    records = run.stored().experiment.facts["sampling_check"]
    assert [record["status"] for record in records] == ["ok"]


@pytest.mark.long
def test_a_run_over_long_and_bad_cables_is_slower_and_nothing_else(lab: Lab, run: Run) -> None:
    for name in (*NODES, *CLIENTS):
        lab.delay(name, 10, loss_percent=1)
    run.write(sleep=0.1)
    assert run.start().finish(250) == 0
    for name in (*NODES, *CLIENTS):
        lab.unlimited(name)
    run.assert_complete()
    assert all(t.attempt == 1 for t in run.stored().trials)


@pytest.mark.long
def test_a_data_network_that_goes_while_ssh_stays_costs_its_trial(
    lab: Lab, run: Run, artifact: Path
) -> None:
    """Real programs: it is they who notice. SSH shows nothing of it, so no host is waited for."""
    run.write(
        0,
        cluster=lab.cluster_document(NODES, CLIENTS, replicas=1, apart=True),
        workloads={"pf": {**fakes.PILLOWFIGHT, "duration": 6, "schedule": "sequential"}},
        relink="never",
    )
    driver = run.start(fakes={"artifact": str(artifact)})
    driver.wait_for("TrialPhase", phase="access")
    under_way = ["ss", "-Htnp", "state", "established", "dst", lab.data_addresses["lab1"]]
    while "pillowfight" not in lab.run("lab3", *under_way):
        assert driver.process.poll() is None, driver.stderr()
        time.sleep(0.02)
    lab.cut("lab1", "data")
    failed = driver.wait_for("TrialFinished", status="failed")
    lab.heal("lab1", "data")
    assert "pillowfight on lab3 failed" in failed["reason"], failed["reason"]
    assert lab.data_addresses["lab1"] in failed["reason"], failed["reason"]
    assert driver.finish(200) == 3, driver.stderr()
    assert not any("waiting for the hosts" in e["message"] for e in driver.of("Warned"))
    run.assert_redone(failed["block"])


@pytest.mark.long
@pytest.mark.slow
def test_an_engine_that_is_killed_costs_its_trial_only(lab: Lab, run: Run, tmp_path: Path) -> None:
    dying = variant(sleep=0.05, die_in="access", once=tmp_path / "once")
    run.write(0, variants={"base": dying, "changed": variant(sleep=0.05)})
    code, _ = run.run()
    assert code == 3
    (failed,) = [t for t in run.stored().trials if t.status == "failed"]
    assert failed.variant == "base"
    assert "SIGKILL" in failed.reason
    run.assert_redone(failed.block)


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
    run.write(sleep=0.1)
    code, driver = run.run()
    assert code == 3
    output = driver.stderr()
    assert "lab1" in output, output
    assert "No space left on device" in output, output
    assert "Traceback" not in output
    lab.assert_idle()


@pytest.mark.long
def test_a_disk_that_fills_in_the_middle_loses_no_result(
    lab: Lab, run: Run, small_disk: Callable[[str], None]
) -> None:
    small_disk("300m")
    driver = run.begin("access", sleep=1)
    filler = f"{lab.layout.work_dir}/filler"
    lab.run("lab1", "sh", "-c", f"cat /dev/zero >{filler} 2>/dev/null || :")
    assert driver.finish(200) == 3
    data = run.stored()
    reasons = {t.reason for t in data.trials if t.status == "failed"}
    assert reasons
    assert all("No space left on device" in reason for reason in reasons), reasons
    lab.run("lab1", "rm", filler)
    code, driver = run.run(resume=True, run=data.experiment.id)
    assert code == 0, driver.stderr()
    run.assert_complete()


@pytest.mark.long
@pytest.mark.parametrize(
    "shared",
    [
        pytest.param(True, id="work directory"),
        pytest.param(False, id="machine", marks=pytest.mark.long),
    ],
)
def test_two_runs_on_one_host_group(
    lab: Lab, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if not shared:
        monkeypatch.delenv("PERFRUNNER_SHARE_HOST")
    first = run.begin("populate", sleep=30)
    (tmp_path / "second").mkdir()
    second = Run(tmp_path / "second", lab)
    second.write_spec(cluster=lab.cluster_document(["lab3"], ["lab2"]))
    code, driver = second.run()
    assert code == 3
    output = driver.stderr()
    assert "in use by run" in output
    assert f"pid {first.process.pid}" in output
    os.kill(first.process.pid, signal.SIGINT)
    assert first.finish() == 130
    lab.assert_idle()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_sigkill_at_random_moments(lab: Lab, run: Run) -> None:
    run.write(sleep=0.3)
    draw = random.Random(7)
    killed = 0
    while killed < KILLS:
        driver = run.start(resume=bool(run.experiments()))
        if killed % 2:  # on a busy machine the others may all die before their plan
            driver.wait_for("PlanReady")
        time.sleep(draw.uniform(0.5, 12.0))
        if driver.process.poll() is None:
            os.kill(driver.process.pid, signal.SIGKILL)
        ended = driver.finish()
        assert ended in (0, -signal.SIGKILL), driver.stderr()
        killed += ended == -signal.SIGKILL
        if [e for e in run.experiments() if e.experiment.state == "done"]:  # the next one is killed
            run.assert_complete()
            shutil.rmtree(run.out)
    code, driver = run.run(resume=bool(run.experiments()))
    assert code == 0, driver.stderr()
    run.assert_complete()
