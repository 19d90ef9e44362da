"""What a link that was cut leaves on a host whose sshd has not noticed: here, a connection that nobody closed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sshd import Sshd

from perfrunner.errors import HostError
from perfrunner.hosts import CommandTimeout, Host, HostInUse, LinkLost, open_host
from perfrunner.hosts.ssh import SshTransport
from tests.support import waiting

pytestmark = pytest.mark.integration

until = partial(waiting.until, seconds=10.0)


def opened(sshd: Sshd, tmp_path: Path, run_id: str) -> Host:
    return open_host(sshd.host_spec(tmp_path / "work"), "ssh", name="node", run_id=run_id)


@pytest.fixture
def past(sshd: Sshd, tmp_path: Path) -> Iterator[Host]:
    """It has the lock."""
    with opened(sshd, tmp_path, "mine") as host:
        host.lock()
        yield host


def test_it_loses_the_lock_to_its_own_run(sshd: Sshd, past: Host, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{pid_file}.new && mv {pid_file}.new {pid_file}; exec sleep 600"
    with ThreadPoolExecutor(1) as beside, opened(sshd, tmp_path, "mine") as host:
        command = beside.submit(past.transport.run, ["sh", "-c", script], timeout=600)
        until(pid_file.exists, "its command runs")
        with pytest.raises(HostError, match="same machine and work directory"):
            host.lock()  # two hosts of one cluster file in one work directory
        host.lock_again()
        assert host.locked
        with pytest.raises(LinkLost):
            command.result(timeout=300)
        assert not past.locked
        until(lambda: not Path("/proc", pid_file.read_text().strip()).exists(), "what it ran ends")


def test_it_keeps_it_from_another_run(sshd: Sshd, past: Host, tmp_path: Path) -> None:
    with opened(sshd, tmp_path, "other") as host:
        with pytest.raises(HostInUse, match="in use by run mine of"):
            host.lock_again()
        assert past.locked


def test_it_loses_it_when_its_run_is_resumed(sshd: Sshd, past: Host, tmp_path: Path) -> None:
    """By another process, when the one that had the lock is gone."""
    lock = Path(past.work_dir, "host.lock")
    with subprocess.Popen(["true"]) as gone:
        pass
    text = lock.read_text().replace(f"(pid {os.getpid()},", f"(pid {gone.pid},")
    lock.write_text(text)
    with opened(sshd, tmp_path, "other") as host, pytest.raises(HostInUse):
        host.lock()
    with opened(sshd, tmp_path, "mine") as host:
        host.lock()
        assert host.locked


def test_a_process_without_the_lock_is_left_alone(sshd: Sshd, past: Host, tmp_path: Path) -> None:
    lock = Path(past.work_dir, "host.lock")
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander:
        lock.write_text(f"{lock.read_text().splitlines()[0]}\n{bystander.pid}\n")
        with opened(sshd, tmp_path, "mine") as host, pytest.raises(HostInUse):
            host.lock_again()
        assert bystander.poll() is None
        bystander.kill()


def test_a_lock_that_says_nothing_is_not_in_use(sshd: Sshd, past: Host) -> None:
    transport = past.transport
    assert isinstance(transport, SshTransport)
    with (
        transport.channel(["sleep", "60"], fed=True) as silent,
        pytest.raises(CommandTimeout, match="no answer within"),
    ):
        transport.await_output(silent, b"held\n", 0.2)
    with transport.channel(["sleep", "60"], fed=True) as cut:
        sshd.cut()
        with pytest.raises(LinkLost):
            transport.await_output(cut, b"held\n", 20)
