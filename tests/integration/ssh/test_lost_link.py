"""A run over SSH whose link is cut in a trial: the trial is discarded and redone, the run goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import paramiko
import pytest
from sshd import Sshd, known_hosts_line, make_key, raised_sshd

from perfrunner.experiment.outdir import JOURNAL, read_journal
from perfrunner.hosts import Host, LinkLost
from perfrunner.results import ResultStore
from tests.support.fakes import PILLOWFIGHT, Driver, Lab, variant, write_perf
from tests.support.waiting import until

pytestmark = pytest.mark.integration

SLOW = {"base": variant(sleep=1.0), "changed": variant(sleep=1.0)}


def the_lab(sshd: Sshd, tmp_path: Path, **changes: object) -> Lab:
    lab = Lab(tmp_path)
    host = sshd.host_spec(lab.work).model_dump(mode="json", exclude_none=True)
    cluster = {
        "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
        "engine_nodes": ["kv1"], "load_clients": ["kv1"],
    }  # fmt: skip
    lab.write_spec(cluster=cluster, blocks=1, **changes)
    return lab


def wait_for_settings_check(driver: Driver, lab: Lab) -> None:
    """Until a settings check waits for the file "go on"."""
    driver.wait_for("BuildFinished", variant="changed")

    def waits() -> bool:
        assert driver.process.poll() is None, driver.stderr()
        return any("/go on " in line for line in lab.processes())

    until(waits, "a settings check waits for the file")


def results(lab: Lab) -> list[tuple[int, str, str]]:
    with ResultStore.open(lab.out, create=False) as store:
        data = store.load(store.resolve(None).id)
    return sorted((t.attempt, t.variant, t.status) for t in data.trials)


BOTH_OK = [(1, "base", "ok"), (1, "changed", "ok")]


@pytest.mark.parametrize("profile", [None, pytest.param("perf", marks=pytest.mark.long)])
def test_a_cut_link_costs_a_block(sshd: Sshd, tmp_path: Path, profile: str | None) -> None:
    lab = the_lab(
        sshd, tmp_path, variants=SLOW, workloads={"pf": {**PILLOWFIGHT, "profile": profile}}
    )
    driver = lab.start(fakes={"perf": str(write_perf(tmp_path))})
    driver.wait_for("TrialPhase", phase="access")
    sshd.cut()
    assert driver.finish() == 0, driver.stderr()
    with ResultStore.open(lab.out, create=False) as store:
        data = store.load(store.resolve(None).id)
    ended = sorted((t.attempt, t.variant, t.status) for t in data.trials)
    assert ended == [
        (1, "base", "discarded"), (1, "changed", "discarded"), (2, "base", "ok"), (2, "changed", "ok"),
    ]  # fmt: skip
    assert "lost" in data.trials[0].reason
    assert ["profile" in t.facts for t in data.trials if t.status == "ok"] == [bool(profile)] * 2
    assert any("waiting for the hosts" in event["message"] for event in driver.of("Warned"))
    assert not list((lab.work / "registry").glob("*.json")), "the cut trial's engines were stopped"
    lab.assert_nothing_left()


def test_a_run_that_waits_for_its_hosts_says_what_is_missing(sshd: Sshd, tmp_path: Path) -> None:
    """The key of a host that was set up again does not come back by waiting."""
    lab = the_lab(sshd, tmp_path, variants=SLOW)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    known = sshd.known_hosts.read_text()
    make_key(tmp_path / "other")
    port = sshd.host_spec(lab.work).port
    assert port is not None
    sshd.known_hosts.write_text(known_hosts_line(port, tmp_path / "other"))
    sshd.cut()
    while "the host key differs" not in driver.wait_for("Warned")["message"]:
        pass
    sshd.known_hosts.write_text(known)
    assert driver.finish() == 0, driver.stderr()
    assert (2, "changed", "ok") in results(lab)
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_link_that_goes_while_we_build_costs_nothing(sshd: Sshd, tmp_path: Path) -> None:
    lab = the_lab(sshd, tmp_path)
    driver = lab.start(fakes={"build_sleep": 1.0})
    driver.wait_for("BuildStarted", variant="changed")
    sshd.cut()
    assert driver.finish() == 0, driver.stderr()
    output = [event["message"] for event in driver.of("Warned")]
    assert any("lock on a host was lost" in message for message in output), output
    assert results(lab) == BOTH_OK
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_link_that_goes_in_a_settings_check_costs_the_settings_checks(
    sshd: Sshd, tmp_path: Path
) -> None:
    lab = the_lab(sshd, tmp_path)
    driver = lab.start(fakes={"settings_check_waits": str(tmp_path / "go on")})
    wait_for_settings_check(driver, lab)
    sshd.cut()
    (tmp_path / "go on").touch()  # for the next settings checks
    assert driver.finish() == 0, driver.stderr()
    output = [event["message"] for event in driver.of("Warned")]
    assert any("the connection was lost" in message for message in output), output
    assert [event["variant"] for event in driver.of("SettingsCheckPassed")] == ["base", "changed"]
    assert results(lab) == BOTH_OK
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_link_that_goes_in_the_sampling_check_costs_the_check(sshd: Sshd, tmp_path: Path) -> None:
    lab = the_lab(sshd, tmp_path, variants=SLOW, sampling_check=True)
    driver = lab.start()
    driver.wait_for("SamplingCheck")
    driver.wait_for("TrialPhase", phase="access")
    sshd.cut()
    assert driver.finish() == 0, driver.stderr()
    assert any("waiting for the hosts" in event["message"] for event in driver.of("Warned"))
    assert results(lab) == BOTH_OK
    with ResultStore.open(lab.out, create=False) as store:
        experiment = store.resolve(None)
    assert experiment.state == "done"
    assert [record["status"] for record in experiment.facts["sampling_check"]] == ["ok"]
    assert driver.of("Eta")[-1]["seconds_left"] == 0
    lab.assert_nothing_left()


def test_a_host_that_stays_away_ends_the_run_with_how_to_go_on(tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd") as sshd:
        lab = the_lab(sshd, tmp_path)
        driver = lab.start(fakes={"settings_check_waits": str(tmp_path / "go on"), "patience": 0})
        wait_for_settings_check(driver, lab)
        sessions = sshd.session_pids()
        for pid in (sshd.process.pid, *sessions):  # nobody listens any more
            os.kill(pid, signal.SIGKILL)
        assert driver.finish() == 3
    stderr = driver.stderr()
    assert "Traceback" not in stderr
    assert "error: kv1" in stderr
    (kept,) = [e for e in driver.of("Warned") if e["message"] == "no trial is completed"]
    assert kept["remedy"].endswith("--resume")
    (journal,) = lab.out.glob(f"*/{JOURNAL}")
    last = read_journal(journal)[-1]
    assert (last["event"], last["host"]) == ("failed", True), "a nightly goes on with it"
    (tmp_path / "go on").touch()
    lab.assert_nothing_left()


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), EOFError()], ids=repr)
def test_a_reset_as_a_command_begins_is_a_lost_link(
    ssh_host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def reset(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(paramiko.Channel, "exec_command", reset)
        with pytest.raises(LinkLost, match="the connection was lost"):
            ssh_host.transport.run(["true"])
    ssh_host.transport.run(["true"])
