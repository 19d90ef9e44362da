"""The lab is what it says: hosts apart, faults real, and nothing left of it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfrunner.errors import HostError
from perfrunner.hosts import Host, LinkLost, open_host, ssh
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.loader import load_cluster
from tests.support.waiting import until
from tools.lab import Lab, LabError
from tools.lab.__main__ import DIRECTORY, main
from tools.lab.client import ROOT
from tools.lab.layout import Layout, host_name

pytestmark = pytest.mark.integration


def host(lab: Lab, name: str) -> Host:
    spec = HostSpec.model_validate(lab.host_document(name))
    return open_host(spec, "ssh", name=name, run_id="run-1")


def test_the_cluster_file_of_the_documents_is_the_lab_that_scripts_lab_raises() -> None:
    layout, cluster = Layout(DIRECTORY, 0), load_cluster(ROOT / "specs/clusters/lab.yaml")
    assert list(cluster.hosts) == [host_name(number) for number in (1, 2, 3)]
    for number, single in enumerate(cluster.hosts.values(), 1):
        assert single.address == layout.address(number)
        assert single.data_address == layout.data_address(number)
        assert (single.user, single.work_dir) == ("root", str(layout.work_dir))
        assert (single.key, single.known_hosts) == (str(layout.key), str(layout.known_hosts))


def test_hosts_are_apart(lab: Lab) -> None:
    with host(lab, "lab1") as single, host(lab, "lab2") as two:
        single.transport.put_bytes(b"mine", "file")
        assert single.work_dir == two.work_dir
        assert single.transport.exists("file")
        assert not two.transport.exists("file")
        facts = single.facts(), two.facts()
        assert [f["hostname"] for f in facts] == ["lab1", "lab2"]
        assert facts[0]["boot_id"] != facts[1]["boot_id"]
        single.start(["sleep", "1000"], name="sleeper", log_stdout="out", log_stderr="err")
        assert any("sleep 1000" in line for line in lab.processes("lab1"))
        assert not any("sleep 1000" in line for line in lab.processes("lab2"))
        assert [s.result.status.signal for s in single.sweep(grace_s=2)] == [signal.SIGTERM]


def test_a_run_locks_each_of_its_hosts_and_another_none(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERFRUNNER_SHARE_HOST")
    with host(lab, "lab1") as single, host(lab, "lab2") as two:
        single.lock()
        two.lock()
        with host(lab, "lab2") as again, pytest.raises(HostError, match="lab2 is the same machine"):
            again.lock()


def test_a_reboot_ends_everything_but_the_disk(lab: Lab) -> None:
    with host(lab, "lab1") as single:
        before = single.facts()["boot_id"]
        single.transport.put_bytes(b"kept", "file")
        single.start(["sleep", "1000"], name="sleeper", log_stdout="out", log_stderr="err")
    lab.power_off("lab1")
    with pytest.raises(LabError, match="lab1 is off"):
        lab.run("lab1", "true")
    lab.boot("lab1")
    with host(lab, "lab1") as single:
        assert single.facts()["boot_id"] != before
        assert single.transport.read_text("file") == "kept"
        (left,) = single.processes()
        assert left.poll() is not None, "it did not outlive the machine"
        single.sweep()


def test_two_hosts_lose_each_other_only(lab: Lab) -> None:
    sshd = lab.hosts["lab2"], 22
    assert reaches(lab, "lab1", *sshd)
    lab.part("lab1", "lab2")
    assert not reaches(lab, "lab1", *sshd)
    assert reaches(lab, "lab3", *sshd)
    lab.join("lab1", "lab2")
    assert reaches(lab, "lab1", *sshd)


LISTEN = """
use IO::Socket::IP;
my $port = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 7777, Listen => 5) or die "$@";
while ($port->accept) {}
"""


def test_ssh_and_engines_have_cables_of_their_own(lab: Lab) -> None:
    data, control = (lab.data_addresses["lab1"], 7777), (lab.hosts["lab1"], 22)

    def reached() -> list[bool]:
        """By lab2: the data address, and sshd's."""
        return [reaches(lab, "lab2", *place) for place in (data, control)]

    with host(lab, "lab1") as single:
        single.start(["perl", "-e", LISTEN, data[0]], name="l", log_stdout="out", log_stderr="err")
        until(lambda: reached() == [True, True])
        lab.cut("lab1", "data")
        assert reached() == [False, True]
        assert single.transport.run(["hostname"]).stdout == "lab1\n"
        lab.heal("lab1")
        assert reached() == [True, True]
        lab.cut("lab1")
        assert reached() == [False, False]
        lab.heal("lab1", "data")
        assert reached() == [True, False]
        lab.heal("lab1")
        lab.part("lab1", "lab2")
        assert reached() == [False, False]
        lab.join("lab1", "lab2")
        assert reached() == [True, True]
        until(lambda: answers(single))
        single.sweep(grace_s=1)


def reaches(lab: Lab, source: str, address: str, port: int) -> bool:
    connect = ["timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
    try:
        lab.run(source, *connect)
    except LabError:
        return False
    return True


def seconds_of(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def test_a_cable_can_be_slow(lab: Lab) -> None:
    with host(lab, "lab1") as single:
        single.transport.run(["true"])
        lab.limit("lab1", 40)
        data = os.urandom(4_000_000)
        assert seconds_of(lambda: single.transport.put_bytes(data, "big")) > 4e6 * 8 / 40e6 * 0.8


@pytest.mark.long
def test_a_cable_can_be_long(lab: Lab) -> None:
    with host(lab, "lab1") as single:
        single.transport.run(["true"])
        lab.delay("lab1", 100)
        assert seconds_of(lambda: single.transport.run(["true"])) > 0.2
        lab.unlimited("lab1")
        until(lambda: seconds_of(lambda: single.transport.run(["true"])) < 0.2, "it is short again")


def retransmitted(lab: Lab, name: str) -> int:
    """TCP segments that the host has sent once more, since it was booted."""
    names, values = (
        line.split()
        for line in lab.run(name, "cat", "/proc/net/snmp").splitlines()
        if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def test_what_a_bad_cable_carries_is_whole(lab: Lab) -> None:
    text = os.urandom(200_000).hex()
    with host(lab, "lab1") as single:
        before = retransmitted(lab, "lab1")
        lab.delay("lab1", 1, loss_percent=5)
        single.transport.put_bytes(text.encode(), "whole")
        while retransmitted(lab, "lab1") == before:  # the test's time is bounded
            assert single.transport.run(["cat", "whole"], cwd=".").stdout == text


@pytest.mark.long
def test_a_long_cable_can_be_pulled(lab: Lab) -> None:
    with host(lab, "lab1") as single:
        lab.delay("lab1", 20)
        single.transport.run(["true"])
        lab.cut("lab1")
        with pytest.raises(LinkLost):
            single.transport.run(["true"])
    lab.heal("lab1")
    with host(lab, "lab1") as single:
        assert seconds_of(lambda: single.transport.run(["true"])) > 0.04


def test_the_command_line_has_every_fault(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pytest can do to a host, a person can."""

    def command(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["scripts/lab", *words])
        assert main() == 0

    monkeypatch.setattr("tools.lab.__main__.Layout", lambda *_: lab.layout)
    sshd = lab.hosts["lab2"], 22
    for harm, cure, reachable in (
        (["part", "lab1", "lab2"], ["join", "lab1", "lab2"], False),
        (["cut", "lab2"], ["heal", "lab2"], False),
        (["cut", "lab2", "--cable", "data"], ["heal", "lab2", "--cable", "data"], True),
    ):
        command(*harm)
        assert reaches(lab, "lab1", *sshd) is reachable, harm
        command(*cure)
        assert reaches(lab, "lab1", *sshd), cure
    with host(lab, "lab1") as single:
        before = single.boot_id()
    command("reboot", "lab1")
    with host(lab, "lab1") as single:
        assert single.boot_id() != before
    command("crash", "lab1")
    assert not lab.ask("status")["hosts"]["lab1"]["on"]
    command("boot", "lab1")


def test_what_the_lab_cannot_do_is_an_error(lab: Lab) -> None:
    with pytest.raises(LabError, match="there is no host lab9; there are lab1, lab2, lab3"):
        lab.cut("lab9")
    with pytest.raises(LabError, match="there is no cable power; there are control, data"):
        lab.ask("cut", host="lab1", cable="power")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    ["cut", *(pytest.param(f, marks=pytest.mark.long) for f in ("power_off", "freeze", "crash"))],
)
def test_a_host_that_is_gone_is_noticed(lab: Lab, fault: str) -> None:
    with host(lab, "lab1") as single:
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(single.transport.run, ["sleep", "3600"], timeout=3600)
            until(lambda: any("sleep 3600" in line for line in lab.processes("lab1")), "it runs")
            getattr(lab, fault)("lab1")
            with pytest.raises(LinkLost, match="lab1"):
                waiting.result()
        if fault in ("power_off", "crash"):
            lab.boot("lab1")
        elif fault == "cut":
            lab.heal("lab1")
        else:
            lab.thaw("lab1")
        assert single.transport.run(["hostname"]).stdout == "lab1\n", "and it is found again"


@pytest.mark.long
def test_a_frozen_sshd_is_noticed_in_an_upload(lab: Lab) -> None:
    with host(lab, "lab1") as single:

        def endless() -> Iterator[bytes]:
            for number in itertools.count():
                if number == 20:
                    lab.freeze("lab1")
                yield b"x" * 100_000

        single.transport.run(["true"])
        with pytest.raises(LinkLost, match="lab1"):
            single.transport._put(endless(), "big", "0" * 64, 0o644)


@pytest.mark.slow
def test_a_host_that_is_gone_is_not_waited_for_at_every_question(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean-up asks it for many things; the other hosts' engines run on in the meantime."""
    with host(lab, "lab1") as single:
        single.transport.run(["true"])
        lab.cut("lab1")
        with pytest.raises(LinkLost):
            single.transport.run(["true"])
        tries = []
        connect = single.transport._connection.open

        def counted() -> None:
            tries.append(1)
            connect()

        monkeypatch.setattr(single.transport._connection, "open", counted)
        monkeypatch.setattr(ssh, "_GONE_S", 3600.0)
        for _ in range(5):
            with pytest.raises(HostError, match="cannot connect"):
                single.transport.run(["true"])
        assert len(tries) <= 1
        single.transport._gone = None  # that time is over
        lab.heal("lab1")
        until(lambda: answers(single), "it answers again")


def answers(single: Host) -> bool:
    try:
        return single.transport.run(["true"]).exit == 0
    except HostError:
        return False


RAISE_AND_WAIT = """
import sys, time
from pathlib import Path
from tools.lab import raised_lab
with raised_lab(2, Path(sys.argv[1])) as lab:
    print(lab.layout.cable, lab.ask("status")["pid"], flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("victim", ["its owner", "its keeper"])
def test_nothing_is_left_when_it_is_killed(lab: Lab, tmp_path: Path, victim: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", RAISE_AND_WAIT, str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    cable, keeper = owner.stdout.readline().split()
    interface = Path("/sys/class/net", cable)
    assert interface.exists()
    os.kill(owner.pid if victim == "its owner" else int(keeper), signal.SIGKILL)
    until(lambda: not interface.exists())
    until(lambda: lines_with(str(tmp_path / "hosts")) == [])
    owner.kill()
    owner.wait()


def lines_with(text: str) -> list[str]:
    """Command lines of this machine that hold it."""
    results = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in line:
                results.append(line.replace("\0", " "))
    return results
