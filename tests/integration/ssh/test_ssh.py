"""Test what only SSH has: a login that fails or takes long, a link that breaks, a server with limits."""

from __future__ import annotations

import contextlib
import getpass
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from sshd import Sshd, harmed_in_a_command, known_hosts_line, make_key, raised_sshd

from perfrunner.errors import HostError
from perfrunner.hosts import Host, LinkLost, connection, open_host, ssh
from perfrunner.spec.cluster import HostSpec
from tests.support.waiting import until

pytestmark = pytest.mark.integration


class TestCannotConnect:
    def test_a_key_that_is_not_authorized(self, sshd: Sshd, tmp_path: Path) -> None:
        other_key = tmp_path / "other_key"
        make_key(other_key)
        with pytest.raises(HostError, match="the host refused our key") as caught:
            open_host(sshd.host_spec(tmp_path / "work", key=str(other_key)), "ssh", name="node")
        assert "authorized_keys" in (caught.value.hint or "")

    def test_no_such_key_file(self, sshd: Sshd, tmp_path: Path) -> None:
        with pytest.raises(HostError, match=r"no such key file: .*/absent"):
            open_host(sshd.host_spec(tmp_path / "work", key=str(tmp_path / "absent")), "ssh")

    def test_nobody_listens(self, sshd: Sshd, tmp_path: Path) -> None:
        with socket.socket() as taken:  # bound, not listening: refused, and nobody else gets it
            taken.bind(("127.0.0.1", 0))
            spec = sshd.host_spec(tmp_path / "work", port=taken.getsockname()[1])
            with pytest.raises(HostError, match=r"cannot connect: .*refused") as caught:
                open_host(spec, "ssh", name="node")
        assert "the host is up" in (caught.value.hint or "")

    @pytest.mark.parametrize("name", ["two..dots", ".dot", f"{'long' * 20}.example"])
    def test_a_name_that_cannot_be_one_of_a_host(self, tmp_path: Path, name: str) -> None:
        """Python's IDNA refuses these before the name server does. ssh gives names to the system as they are."""
        (tmp_path / "config").write_text(f"Host node\nHostName {name}\n")
        spec = HostSpec(address="node", ssh_config=str(tmp_path / "config"))
        with pytest.raises(HostError, match="cannot connect"):
            open_host(spec, "ssh")

    def test_a_silent_listener_is_given_up(self, sshd: Sshd, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("ConnectTimeout 2\n")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            spec = sshd.host_spec(
                tmp_path / "work", port=silent.getsockname()[1], ssh_config=str(tmp_path / "config")
            )
            with pytest.raises(HostError, match="cannot connect"):
                open_host(spec, "ssh", name="node")

    def test_a_login_that_takes_long(self, tmp_path: Path) -> None:
        """Name servers or a user directory may be slow: ssh waits longer for the login than for the connection."""
        lookup = f'/bin/sh -c "sleep 6; cat {tmp_path}/sshd/user_key.pub"'
        user = getpass.getuser()
        (tmp_path / "config").write_text("ConnectTimeout 5\n")
        with raised_sshd(
            tmp_path / "sshd", AuthorizedKeysCommand=lookup, AuthorizedKeysCommandUser=user
        ) as slow:
            (slow.directory / "authorized_keys").write_text("")
            spec = slow.host_spec(tmp_path / "work", ssh_config=str(tmp_path / "config"))
            with open_host(spec, "ssh") as host:
                assert host.transport.run(["true"]).exit == 0

    def test_a_session_that_begins_late(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """PAM modules, such as the message of the day, run behind the login: the server answers when they end."""
        with stopped_behind_the_login(sshd, monkeypatch) as sessions:
            threading.Timer(
                ssh.CHANNEL_TIMEOUT_S + 1, lambda: signal_all(sessions, signal.SIGCONT)
            ).start()
            with open_host(sshd.host_spec(tmp_path / "work"), "ssh") as host:
                assert host.transport.run(["true"]).exit == 0

    def test_a_login_without_end(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "LOGIN_TIMEOUT_S", 0.5)
        with (
            stopped_behind_the_login(sshd, monkeypatch),
            pytest.raises(HostError, match="the login does not end within") as raised,
        ):
            open_host(sshd.host_spec(tmp_path / "work"), "ssh")
        assert "PAM" in str(raised.value.hint)

    def test_the_library_does_not_print(self, sshd: Sshd, tmp_path: Path) -> None:
        """Paramiko logs a traceback for what ends as our one-line error."""
        program = """
            import sys
            from perfrunner.hosts import open_host
            from perfrunner.errors import HostError
            from perfrunner.spec.cluster import HostSpec
            try:
                open_host(HostSpec.model_validate_json(sys.argv[1]), "ssh", name="node")
            except HostError as error:
                print(error)
        """
        with socket.create_server(("127.0.0.1", 0)) as rude:

            def turn_away() -> None:
                for _ in range(4):
                    rude.accept()[0].close()

            threading.Thread(target=turn_away, daemon=True).start()
            spec = sshd.host_spec(tmp_path / "work", port=rude.getsockname()[1])
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(program), spec.model_dump_json()],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        assert "cannot connect" in done.stdout
        assert done.stderr == ""

    def test_a_crowded_server_is_asked_again(self, tmp_path: Path) -> None:
        with raised_sshd(tmp_path / "sshd", MaxStartups="2:50:6") as crowded:
            problems: list[Exception] = []

            def connect(number: int) -> None:
                try:
                    open_host(crowded.host_spec(tmp_path / f"work{number}"), "ssh").close()
                except HostError as error:
                    problems.append(error)

            threads = [threading.Thread(target=connect, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not problems

    def test_more_commands_than_the_server_has_sessions(self, tmp_path: Path) -> None:
        with (
            raised_sshd(tmp_path / "sshd") as stock,  # MaxSessions 10
            open_host(stock.host_spec(tmp_path / "work"), "ssh") as host,
        ):
            host.lock()
            exits: list[int] = []
            threads = [
                threading.Thread(
                    target=lambda: exits.append(host.transport.run(["sleep", "0.1"]).exit)
                )
                for _ in range(25)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert exits == [0] * 25

    def test_a_refusal_without_its_reason_is_no_lost_link(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So Paramiko tells one of two threads whose sessions the server refuses at the same time."""
        opened = paramiko.Transport.open_session
        refusals = iter([paramiko.SSHException("Unable to open channel.")])

        def open_session(self: paramiko.Transport, **how: float) -> paramiko.Channel:
            if (error := next(refusals, None)) is not None:
                raise error
            return opened(self, **how)

        with open_host(sshd.host_spec(tmp_path / "work"), "ssh") as host:
            connection = host.transport.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout
            monkeypatch.setattr(paramiko.Transport, "open_session", open_session)
            again = host.transport.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout
        assert again == connection


def test_a_session_that_sshd_closes_is_named(tmp_path: Path) -> None:
    with (
        # Of an idle session: opening the host takes a second on a slow machine.
        raised_sshd(tmp_path / "sshd", ChannelTimeout="session:*=8s") as impatient,
        open_host(impatient.host_spec(tmp_path / "work"), "ssh") as host,
        pytest.raises(HostError, match="ended without a status") as raised,
    ):
        host.transport.run(["sleep", "600"], timeout=600)
    assert "ChannelTimeout" in (raised.value.hint or "")


class TestBrokenLink:
    def test_during_a_command(self, sshd: Sshd, ssh_host: Host) -> None:
        error = harmed_in_a_command(ssh_host, sshd.cut)
        assert isinstance(error, LinkLost)
        assert re.fullmatch(r"node \(.*\): the connection was lost.*", error.message)
        assert "the host is up" in (error.hint or "")

    def test_during_an_upload(self, sshd: Sshd, ssh_host: Host) -> None:
        def endless():
            for number in itertools.count():
                if number == 20:
                    sshd.cut()
                yield b"x" * 100_000

        with pytest.raises(LinkLost):
            ssh_host.transport._put(endless(), "big", "0" * 64, 0o644)
        until(
            lambda: not list(Path(ssh_host.work_dir).glob("big*")),
            "the remote side clears its temporary file",
        )

    def test_the_process_goes_on_and_a_new_link_finds_it(self, sshd: Sshd, ssh_host: Host) -> None:
        ssh_host.lock()
        process = ssh_host.start(["sleep", "60"], name="engine", log_stdout="o", log_stderr="e")
        sshd.cut()
        until(lambda: not ssh_host.locked, "the lock is lost with the link")

        def runs() -> bool:  # the first command may still meet the dead connection
            with contextlib.suppress(LinkLost):
                assert process.poll() is None
                return True
            return False

        until(runs, "a new link")
        (swept,) = ssh_host.sweep("run-1", grace_s=3600)
        assert swept.process.pid == process.pid
        assert (
            not Path(f"/proc/{process.pid}/cmdline").exists()
            or not Path(f"/proc/{process.pid}/cmdline").read_bytes()
        )

    def test_a_silent_host_is_noticed(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A relay that stops carrying data stands for the network: no FIN, no answer to what is sent.

        Its kernel still acknowledges, so it is the heartbeat that has to notice.
        """
        monkeypatch.setattr(connection, "INTERVAL_S", 0.2)
        monkeypatch.setattr(connection, "LIMIT_S", 2.0)
        with Relay(sshd.port) as relay:
            spec = sshd.host_spec(tmp_path / "work", port=relay.port)
            known = tmp_path / "known_hosts"
            known.write_text(known_hosts_line(relay.port, sshd.directory / "host_key"))
            with open_host(spec.model_copy(update={"known_hosts": str(known)}), "ssh") as host:
                assert isinstance(harmed_in_a_command(host, relay.freeze), LinkLost)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def stopped_behind_the_login(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Stop each session of the server when it has let us in; they go on at the end."""
    log_in, stopped = connection.HostConnection.open, []

    def open_and_stop(self: connection.HostConnection) -> object:
        before = set(sshd.session_pids())
        opened = log_in(self)
        for pid in set(sshd.session_pids()) - before:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            stopped.extend([pid, *map(int, children)])
        signal_all(stopped, signal.SIGSTOP)
        return opened

    monkeypatch.setattr(connection.HostConnection, "open", open_and_stop)
    try:
        yield stopped
    finally:
        signal_all(stopped, signal.SIGCONT)


class Relay:
    """Carries one loopback port to another until it is frozen."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:  # noqa: PYI034
        return self

    def __exit__(self, *args: object) -> None:
        for sock in (self._server, *self._sockets):
            with contextlib.suppress(OSError):  # closing alone does not end what a thread waits for
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def freeze(self) -> None:
        self._flows.clear()

    def _accept(self) -> None:
        while True:
            try:
                near = self._server.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, a: socket.socket, b: socket.socket) -> None:
        try:
            while data := a.recv(65536):
                self._flows.wait()
                b.sendall(data)
        except OSError:
            pass


CHILD = """
    import sys, time
    from pathlib import Path
    from perfrunner.hosts import open_host
    from perfrunner.spec.cluster import HostSpec
    host = open_host(HostSpec.model_validate_json(sys.argv[1]), "ssh", name="node")
    print("up", flush=True)
    try:
        host.transport.run(["sh", "-c", "echo $$ >pid; exec sleep 3600"], cwd=".", timeout=3600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        host.transport.run(["true"])
        sys.exit(130)
"""


def test_ctrl_c_during_a_remote_command_returns_at_once(sshd: Sshd, tmp_path: Path) -> None:
    spec = sshd.host_spec(tmp_path / "work")
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), spec.model_dump_json()],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    pid_file = tmp_path / "work" / "pid"
    until(lambda: pid_file.exists() and pid_file.read_text(), "the remote command runs")
    remote = int(pid_file.read_text())
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    assert child.wait(timeout=300) == 130
    child.stdout.close()
    until(
        lambda: not Path(f"/proc/{remote}/comm").exists(),
        "the remote command ends with its channel",
    )


def test_fabrics_own_run_is_interrupted_too(sshd: Sshd, tmp_path: Path) -> None:
    """Connection.run is not what transports use; any client that reaches for it must not hang at Ctrl-C."""
    from perfrunner.hosts import destination_of
    from perfrunner.hosts.connection import HostConnection
    from perfrunner.hosts.openssh import resolve

    connection = HostConnection(resolve(destination_of(sshd.host_spec(Path("~/none")))))
    begun = tmp_path / "begun"

    def interrupt() -> None:
        until(begun.exists, "the command runs")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        connection.run(f"touch '{begun}'; exec sleep 3600")
    connection.close()


def test_small_exchanges_do_not_wait_for_acknowledgements(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TCP_NODELAY each of them takes the 40 ms of a delayed acknowledgement."""
    from perfrunner.hosts import connection

    opened: list[socket.socket] = []
    connect = connection.responsive_socket

    def responsive_socket(route: Any) -> socket.socket:
        opened.append(connect(route))
        return opened[-1]

    monkeypatch.setattr(connection, "responsive_socket", responsive_socket)
    with open_host(sshd.host_spec(tmp_path / "work"), "ssh", name="node"):
        assert opened
        assert all(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in opened)
