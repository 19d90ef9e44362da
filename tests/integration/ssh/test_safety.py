"""What another user, or a damaged file, put in our way: nothing foreign is ended, read through a link, or destroyed."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from paramiko.buffered_pipe import BufferedPipe
from paramiko.pipe import PosixPipe
from sshd import Sshd

from perfrunner.errors import IN_USE, HostError
from perfrunner.experiment.preflight.doctor import examine
from perfrunner.hosts import CommandFailed, Host, HostInUse, open_host, process
from perfrunner.hosts.process import ProcessId
from perfrunner.spec.cluster import ClusterSpec, HostSpec

pytestmark = pytest.mark.integration


@pytest.fixture(params=["local", "ssh"])
def opening(request: pytest.FixtureRequest, tmp_path: Path):
    """opening(work_dir) opens a host there."""

    def opened(work_dir: Path | str, run_id: str = "r") -> Host:
        spec = HostSpec(work_dir=str(work_dir))
        if request.param == "ssh":
            sshd: Sshd = request.getfixturevalue("sshd")
            spec = sshd.host_spec(Path(work_dir))
        return open_host(spec, request.param, name="node", run_id=run_id)

    return opened


def test_the_work_directory_is_the_users_own(opening, tmp_path: Path) -> None:
    with opening(tmp_path / "work") as host:
        assert Path(host.work_dir).stat().st_mode & 0o777 == 0o700
    with opening(f"{tmp_path}/of-%u") as host:
        assert host.work_dir == f"{tmp_path}/of-{os.getuid()}"


def test_a_link_in_its_place_is_not_followed(opening, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "mine")
    with pytest.raises(HostError, match="it is a symbolic link"):
        opening(tmp_path / "work")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_host_that_never_stops_talking_does_not_fill_our_memory(
    ssh_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT", 1_000_000)
    transport = ssh_host.transport
    assert len(transport.run(["head", "-c", "1000000", "/dev/zero"]).stdout) == 1_000_000
    for talk in ("yes", "yes >&2"):
        with pytest.raises(HostError, match="printed more than 1 MB"):
            transport.run(["sh", "-c", talk])
    lines: list[str] = []
    transport.follow(["sh", "-c", "yes | head -c 2000000"], lines.append, timeout=60)
    assert len(lines) == 1_000_000, "lines that are taken as they come are not kept"
    with pytest.raises(HostError, match="printed more than 1 MB"):
        transport.follow(["cat", "/dev/zero"], lines.append, timeout=60)


def test_output_that_arrives_while_its_command_is_left_costs_nothing(
    ssh_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = threading.Event()

    def feed(buffer: BufferedPipe, data: bytes) -> None:
        kept_feed(buffer, data)
        arrived.set()

    def close(pipe: PosixPipe) -> None:
        # What may happen between two lines of Paramiko's: its thread gets the next output.
        for number in (pipe._rfd, pipe._wfd):
            os.close(number)
        arrived.clear()
        assert arrived.wait(60), "the thread of the connection has ended"
        pipe._closed = True

    kept_feed = BufferedPipe.feed
    monkeypatch.setattr(BufferedPipe, "feed", feed)
    monkeypatch.setattr(PosixPipe, "close", close)
    transport = ssh_host.transport
    talk = "while :; do echo x; sleep 0.01; done"
    with pytest.raises(ZeroDivisionError):
        transport.follow(["sh", "-c", talk], lambda line: 1 // 0, timeout=60)
    monkeypatch.undo()
    assert transport.run(["echo", "the same link"]).stdout == "the same link\n"


def test_what_a_host_says_does_not_command_our_terminal(opening, tmp_path: Path) -> None:
    with opening(tmp_path / "work") as host, pytest.raises(CommandFailed) as caught:
        host.transport.run(["sh", "-c", r"printf '\033]0;owned\007bad\r\n' >&2; exit 1"])
    assert caught.value.message.endswith(r"\x1b]0;owned\x07bad")


def test_a_directory_that_others_may_write_to_is_refused(opening, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    with pytest.raises(HostError, match=r"others may write to it \(mode 777\)"):
        opening(tmp_path / "work")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_somebody_elses_directory_is_refused(opening, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o755)
    os.chown(tmp_path / "work", 12345, -1)
    with pytest.raises(HostError, match=r"belongs to another user \(number 12345\)"):
        opening(tmp_path / "work")


def identity(pid: int) -> ProcessId:
    start_time = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ProcessId(pid, int(start_time), boot_id)


def forge(host: Host, pid: int, name: str = "engine") -> None:
    of = identity(pid)
    entry = {
        "name": name, "run_id": "r", "argv": [], "started_at": time.time(), "stderr": "", "pid": of.pid,
        "start_time": of.start_time, "boot_id": of.boot_id,
    }  # fmt: skip
    Path(host.work_dir, "registry", "engine.json").write_text(json.dumps(entry) + "\n")
    Path(host.work_dir, "registry", "engine.lock").touch()
    Path(host.work_dir, "registry", "engine.status").write_text("0\n")


def test_a_forged_registry_ends_no_process(opening, tmp_path: Path) -> None:
    with (
        subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander,
        opening(tmp_path / "work") as host,
    ):
        forge(host, bystander.pid)
        host.sweep(grace_s=0.1)
        assert bystander.poll() is None
        bystander.kill()


def test_a_forged_name_removes_no_file(opening, tmp_path: Path) -> None:
    (tmp_path / "precious.json").write_text("{}")
    with opening(tmp_path / "work") as host:
        forge(host, os.getpid(), "../../precious")
        with pytest.raises(HostError, match="has an entry that perfrunner did not write"):
            host.sweep(grace_s=0.1)
    assert (tmp_path / "precious.json").read_text() == "{}"


def test_a_link_in_the_locks_place_destroys_nothing(opening, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    with opening(tmp_path / "work") as host:
        Path(host.work_dir, "host.lock").symlink_to(precious)
        with pytest.raises(HostError, match=r"symbolic link|lock"):
            host.lock()
    assert precious.read_text() == "kept"


def test_one_lock_a_machine_whatever_the_work_directories(
    opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    monkeypatch.setattr("perfrunner.hosts.lock.MACHINE", str(machine))
    monkeypatch.delenv("PERFRUNNER_SHARE_HOST")
    with opening(tmp_path / "one", "first") as single, opening(tmp_path / "two", "second") as two:
        single.lock()
        with pytest.raises(
            HostInUse, match=rf"in use by run first of \S+ \(pid {os.getpid()}, "
        ) as messages:
            two.lock()
        assert "PERFRUNNER_SHARE_HOST=1" in (messages.value.hint or ""), "it is the machine's lock"
        two.lock(machine=False)  # the second host of a run that has the machine
        single.close()
    with opening(tmp_path / "two", "second") as two:
        two.lock()


def test_a_lock_that_cannot_be_had_is_not_in_use(opening, tmp_path: Path) -> None:
    """Who waits for a host that is in use would wait indefinitely."""
    (tmp_path / "work").mkdir(mode=0o700)
    (tmp_path / "work" / "host.lock").mkdir()
    with (
        opening(tmp_path / "work") as host,
        pytest.raises(HostError, match=r"[Ii]s a directory") as messages,
    ):
        host.lock()
    assert not isinstance(messages.value, HostInUse)
    assert IN_USE not in messages.value.message


def test_the_doctor_of_two_hosts_that_are_one_machine(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    monkeypatch.setattr("perfrunner.hosts.lock.MACHINE", str(machine))
    monkeypatch.delenv("PERFRUNNER_SHARE_HOST")
    hosts = {name: sshd.host_spec(tmp_path / name) for name in ("one", "two")}
    cluster = ClusterSpec(
        name="both", transport="ssh", hosts=hosts, engine_nodes=("one",), load_clients=("two",)
    )
    free = {f.place: f.grade for f in examine(cluster, None) if f.subject == "free"}
    assert free == {"one": "ok", "two": "ok"}


def test_two_hosts_that_are_one_directory_are_named(opening, tmp_path: Path) -> None:
    """Waiting for the end of the other run would be waiting for oneself."""
    with opening(tmp_path / "work", "run") as first, opening(tmp_path / "work", "run") as second:
        first.lock()
        with pytest.raises(HostError, match="same machine and work directory") as messages:
            second.lock(machine=False)
        assert not isinstance(messages.value, HostInUse)
        assert "work_dir" in (messages.value.hint or "")
