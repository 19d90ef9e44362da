"""An sshd of our own: its configuration, keys and port, on loopback only, ended by pid.

with raised_sshd(directory) as server:
    server.host_spec(work_dir=...)      # a HostSpec that reaches it
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfrunner.hosts import Host
from perfrunner.spec.cluster import HostSpec
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE_S, until

SSHD = "/usr/sbin/sshd"
_WRAPPERS = "/usr/lib/*/libnss_wrapper.so"
ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Account:
    """The user that sshd lets in: another name, home and shell for the uid of the tests."""

    user: str
    home: Path
    shell: str = "/bin/sh"


@dataclass
class Sshd:
    """A running server. `process` is the listener; its children are the sessions."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]
    user: str

    @property
    def key(self) -> Path:
        return self.directory / "user_key"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def host_spec(self, work_dir: Path, **changes: object) -> HostSpec:
        fields: dict[str, object] = {
            "address": ADDRESS,
            "port": self.port,
            "user": self.user,
            "key": str(self.key),
            "known_hosts": str(self.known_hosts),
            "work_dir": str(work_dir),
        }
        return HostSpec.model_validate({**fields, **changes})

    def session_pids(self) -> list[int]:
        """The children of the listener: one for each connection."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def cut(self) -> None:
        """Kill the sessions, so that the server closes their connections."""
        for pid in self.session_pids():
            with contextlib.suppress(
                ProcessLookupError
            ):  # one of an earlier test ends in the meantime
                os.kill(pid, signal.SIGKILL)

    def log(self) -> str:
        return (self.directory / "sshd.log").read_text(errors="replace")


def harmed_in_a_command(host: Host, harm: Callable[[], None]) -> BaseException | None:
    """Call `harm` once a command runs on the host; return the exception with which the command ends.

    A link that is lost before the command begins is replaced without a word.
    """
    begun = Path(host.work_dir, "begun")
    begun.unlink(missing_ok=True)
    script = f"touch '{begun}'; exec sleep 3600"
    with ThreadPoolExecutor(1) as beside:
        command = beside.submit(host.transport.run, ["sh", "-c", script], timeout=3600)
        until(begun.exists, "the command runs")
        harm()
        return command.exception()


def make_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def known_hosts_line(port: int, host_key: Path) -> str:
    kind, key = host_key.with_suffix(".pub").read_text().split()[:2]
    return f"[{ADDRESS}]:{port} {kind} {key}\n"


@contextlib.contextmanager
def raised_sshd(
    directory: Path, *, account: Account | None = None, within: Sequence[str] = (), **options: str
) -> Iterator[Sshd]:
    """`options` are lines of sshd_config that come before (and so win over) ours.

    `within` is the beginning of a command that becomes sshd. With an account, sshd sees a user database of its own, and
    bash reads its start files as on any host.
    """
    if not Path(SSHD).exists() or shutil.which("ssh-keygen") is None:
        pytest.fail("needs openssh-server: scripts/test installs it")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("host_key", "user_key"):
        make_key(directory / name)
    shutil.copy(directory / "user_key.pub", directory / "authorized_keys")
    for _ in range(5):  # another process may take the port between its choice and sshd's bind
        port = free_ports(1, ADDRESS)
        (directory / "known_hosts").write_text(known_hosts_line(port, directory / "host_key"))
        process = _launch(directory, port, options, account, within)
        if _listening(process, port):
            break
        process.kill()
        process.wait()
    else:
        pytest.fail(f"sshd did not come up: {(directory / 'sshd.log').read_text()}")
    user = getpass.getuser() if account is None else account.user
    server = Sshd(directory, port, process, user)
    try:
        yield server
    finally:
        sessions = server.session_pids()
        process.terminate()
        process.wait(timeout=300)
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _own_users(directory: Path, account: Account) -> dict[str, str]:
    """The environment in which a program sees the account in the user database."""
    wrappers = sorted(Path("/").glob(_WRAPPERS.lstrip("/")))
    if not wrappers:
        pytest.fail("needs libnss-wrapper: scripts/test installs it")
    own = f"{account.user}:x:{os.getuid()}:{os.getgid()}::{account.home}:{account.shell}\n"
    (directory / "passwd").write_text(own + Path("/etc/passwd").read_text())
    return {
        "LD_PRELOAD": str(wrappers[0]),
        "NSS_WRAPPER_PASSWD": str(directory / "passwd"),
        "NSS_WRAPPER_GROUP": "/etc/group",
    }


def _launch(
    directory: Path,
    port: int,
    options: dict[str, str],
    account: Account | None,
    within: Sequence[str],
) -> subprocess.Popen[bytes]:
    config = directory / "sshd_config"
    settings = {
        **options,
        "ListenAddress": f"{ADDRESS}:{port}",
        "HostKey": str(directory / "host_key"),
        "PidFile": str(directory / "sshd.pid"),
        "AuthorizedKeysFile": str(directory / "authorized_keys"),
        "StrictModes": "no",
        "UsePAM": "no",
        "UseDNS": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "SetEnv": "SHLVL=1",  # else bash reads ~/.bashrc for every command
        "Subsystem": "sftp internal-sftp",
    }
    if account is not None:
        del settings["SetEnv"]
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    return subprocess.Popen(
        [*within, SSHD, "-D", "-f", str(config), "-E", str(directory / "sshd.log")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=None if account is None else {**os.environ, **_own_users(directory, account)},
    )


def _listening(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((ADDRESS, port), timeout=1):
            return True
        time.sleep(0.005)
    return False
