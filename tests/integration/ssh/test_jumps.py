"""Connections that another process carries: ProxyJump, ProxyCommand, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd import Sshd, harmed_in_a_command, raised_sshd

from perfrunner.errors import HostError
from perfrunner.hosts import Host, LinkLost, connection, open_host
from perfrunner.spec.cluster import HostSpec
from tests.support.waiting import until

pytestmark = pytest.mark.integration

# $1 host, $2 port, $3 whether to pass the socket instead of the data.
CARRIER = """
import os, select, socket, sys
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
if len(sys.argv) > 3:
    socket.send_fds(socket.socket(fileno=1), [b"x"], [there.fileno()])
    sys.exit()
while True:
    for one in select.select([0, there], [], [])[0]:
        data = os.read(0, 65536) if one == 0 else there.recv(65536)
        if not data:
            sys.exit()
        there.sendall(data) if one == 0 else os.write(1, data)
"""


@pytest.fixture(scope="module")
def hop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with raised_sshd(tmp_path_factory.mktemp("hop"), LogLevel="VERBOSE") as server:
        yield server


def gate(hop: Sshd, name: str = "gate") -> str:
    """What ssh_config says of a jump host."""
    return (
        f"Host {name}\n  HostName 127.0.0.1\n  Port {hop.port}\n  IdentityFile {hop.key}\n"
        f"  UserKnownHostsFile {hop.known_hosts}\n"
    )


def spec_by(sshd: Sshd, tmp_path: Path, config: str, **changes: object) -> HostSpec:
    path = tmp_path / "config"
    path.write_text(config)
    return sshd.host_spec(tmp_path / "work", ssh_config=str(path), **changes)


def carriers(sshd: Sshd) -> list[str]:
    """Command lines of processes that lead to the server."""
    results = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if f"[127.0.0.1]:{sshd.port}" in words or (
            "carrier" in " ".join(words) and str(sshd.port) in words
        ):
            results.append(" ".join(words))
    return results


def the_session(server: Sshd) -> int:
    """The only session of a server, once those of earlier tests have ended."""
    until(lambda: len(server.session_pids()) == 1, "one session")
    (pid,) = server.session_pids()
    return pid


@pytest.mark.parametrize("value", ["gate", "ssh://{user}@gate", "ssh://gate:{port}", "{user}@gate"])
def test_a_jump(sshd: Sshd, hop: Sshd, tmp_path: Path, value: str) -> None:
    jump = value.format(user=hop.user, port=hop.port)
    spec = spec_by(sshd, tmp_path, f"{gate(hop)}Host 127.0.0.1\n  ProxyJump {jump}\n")
    logins = hop.log().count("Accepted publickey")
    with open_host(spec, "ssh", name="node") as host:
        assert host.transport.run(["echo", "there"]).stdout == "there\n"
        assert "via" in host.transport.peer
        assert carriers(sshd)
    assert not carriers(sshd)
    assert hop.log().count("Accepted publickey") == logins + 1


def test_two_jumps(sshd: Sshd, hop: Sshd, tmp_path: Path) -> None:
    config = f"{gate(hop)}{gate(hop, 'second')}Host 127.0.0.1\n  ProxyJump gate,second\n"
    logins = hop.log().count("Accepted publickey")
    with open_host(spec_by(sshd, tmp_path, config), "ssh") as host:
        assert host.transport.run(["true"]).exit == 0
    until(lambda: not carriers(hop) and not carriers(sshd), "the jumps end")
    assert hop.log().count("Accepted publickey") == logins + 2


@pytest.mark.parametrize("passes", [False, True], ids=["data", "socket"])
def test_a_command(sshd: Sshd, tmp_path: Path, passes: bool) -> None:
    carrier = tmp_path / "carrier.py"
    carrier.write_text(CARRIER)
    config = (
        f"Host node\n  HostName 127.0.0.1\n  HostKeyAlias [127.0.0.1]:{sshd.port}\n"
        f"  ProxyCommand {sys.executable} {carrier} %h %p {'x' if passes else ''}\n"
        f"  ProxyJump nowhere\n  ProxyUseFdpass {'yes' if passes else 'no'}\n"
    )
    with open_host(spec_by(sshd, tmp_path, config, address="node"), "ssh") as host:
        assert host.transport.run(["echo", "there"]).stdout == "there\n"
        assert bool(carriers(sshd)) is not passes
    assert not carriers(sshd)


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ("ProxyCommand echo no way out >&2; exit 3\n", "no way out"),
        ("ProxyCommand sh -c 'exit 3'\n", "the proxy ended with status 3"),
        ("ProxyCommand /nowhere/program %h\n", "/nowhere/program"),
        ("ProxyCommand true\nProxyUseFdpass yes\n", "passed no socket"),
        ("ProxyJump 127.0.0.1:1\nMatch final host none\n", "Connection refused|loop"),
    ],
)
def test_a_proxy_that_fails_says_why(sshd: Sshd, tmp_path: Path, config: str, output: str) -> None:
    with pytest.raises(HostError, match=output) as raised:
        open_host(spec_by(sshd, tmp_path, f"Host node\n{config}", address="node"), "ssh")
    assert "ssh_config" in (raised.value.hint or raised.value.message)


def test_a_jump_host_is_judged_by_ssh(sshd: Sshd, hop: Sshd, tmp_path: Path) -> None:
    text = gate(hop).replace(str(hop.known_hosts), "/dev/null")
    spec = spec_by(sshd, tmp_path, f"{text}Host 127.0.0.1\n  ProxyJump gate\n")
    logins = hop.log().count("Accepted publickey")
    with pytest.raises(HostError, match="Host key verification failed") as caught:
        open_host(spec, "ssh")
    assert f"ssh -F {tmp_path}/config" in (caught.value.hint or "")
    assert hop.log().count("Accepted publickey") == logins
    assert not carriers(sshd)


def test_the_host_behind_a_jump_is_judged_by_us(sshd: Sshd, hop: Sshd, tmp_path: Path) -> None:
    config = f"{gate(hop)}Host 127.0.0.1\n  ProxyJump gate\n"
    spec = spec_by(sshd, tmp_path, config, known_hosts=str(tmp_path / "none"))
    with pytest.raises(HostError, match="the host key is not in"):
        open_host(spec, "ssh")
    assert not carriers(sshd)


class TestEnds:
    @pytest.fixture
    def behind(self, sshd: Sshd, hop: Sshd, tmp_path: Path) -> Iterator[Host]:
        spec = spec_by(sshd, tmp_path, f"{gate(hop)}Host 127.0.0.1\n  ProxyJump gate\n")
        with open_host(spec, "ssh", name="node") as host:
            yield host

    def test_a_cut_link_is_noticed_and_replaced(self, sshd: Sshd, hop: Sshd, behind: Host) -> None:
        (before,) = carriers(sshd)
        assert isinstance(harmed_in_a_command(behind, hop.cut), LinkLost)
        assert behind.transport.run(["echo", "again"]).stdout == "again\n"
        assert carriers(sshd) == [before], "one, and the first one has gone"

    def test_a_silent_host_is_noticed(
        self, sshd: Sshd, behind: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "LIMIT_S", 2.0)
        frozen = the_session(sshd)
        os.kill(frozen, signal.SIGSTOP)
        try:
            with pytest.raises(LinkLost):
                behind.transport.run(["sleep", "3600"], timeout=3600)
            behind.close()
            assert not carriers(sshd), "though its host is frozen"
        finally:
            os.kill(frozen, signal.SIGCONT)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_no_process_outlives_perfrunner(
        self, sshd: Sshd, hop: Sshd, tmp_path: Path, number: signal.Signals
    ) -> None:
        program = """
            import sys
            from perfrunner.hosts import open_host
            from perfrunner.spec.cluster import HostSpec
            with open_host(HostSpec.model_validate_json(sys.argv[1]), "ssh") as host:
                print("up", flush=True)
                host.transport.run(["sleep", "3600"], timeout=3600)
        """
        spec = spec_by(sshd, tmp_path, f"{gate(hop)}Host 127.0.0.1\n  ProxyJump gate\n")
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), spec.model_dump_json()],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            assert carriers(sshd)
            child.send_signal(number)
            assert child.wait(timeout=300) != 0
        until(lambda: not carriers(sshd), "the jump ends")

    def test_none_is_left_of_an_attempt_that_is_given_up(
        self, sshd: Sshd, hop: Sshd, tmp_path: Path
    ) -> None:
        """The hop lets nobody through."""
        config = f"{gate(hop)}Host 127.0.0.1\n  ProxyJump gate\n  ConnectTimeout 2\n"
        os.kill(hop.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(HostError, match="cannot connect"):
                open_host(spec_by(sshd, tmp_path, config), "ssh")
            assert not carriers(sshd)
        finally:
            os.kill(hop.process.pid, signal.SIGCONT)
