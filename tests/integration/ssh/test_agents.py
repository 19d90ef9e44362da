"""Agents that do not sign, or have keys that cannot be used: ssh goes on to the next key."""

from __future__ import annotations

import contextlib
import os
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sshd import Sshd, make_key

from perfrunner.errors import HostError
from perfrunner.hosts import destination_of, open_host
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def confirming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An agent whose user is asked at each use of its keys, and never agrees. A file next to its socket tells of it."""
    directory = tmp_path_factory.mktemp("confirming")
    socket, ask = directory / "socket", directory / "ask"
    ask.write_text(f"#!/bin/sh\n: >{directory}/asked\nexit 1\n")
    ask.chmod(0o700)
    own = {**os.environ, "SSH_ASKPASS": str(ask), "DISPLAY": ":0", "SSH_AUTH_SOCK": str(socket)}
    command = ["ssh-agent", "-D", "-a", socket]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own) as process:
        until(socket.exists, "the agent listens")
        make_key(directory / "both")
        argv = ["ssh-add", "-q", "-c", directory / "both"]
        subprocess.run(argv, check=True, timeout=300, env=own)
        yield socket
        process.terminate()


@pytest.mark.parametrize("known", [True, False], ids=["a known key", "an unknown key"])
def test_an_agent_that_does_not_sign_is_passed_over_as_by_ssh(
    sshd: Sshd, confirming: Path, tmp_path: Path, known: bool
) -> None:
    """Its user is asked only about a key that the server would accept."""
    listed, asked = sshd.directory / "authorized_keys", confirming.parent / "asked"
    only_ours = listed.read_text()
    config = f"IdentityAgent {confirming}\nIdentityFile {sshd.key}\n"
    (tmp_path / "config").write_text(config)
    spec = sshd.host_spec(tmp_path / "work", key=None, ssh_config=str(tmp_path / "config"))
    try:
        if known:
            listed.write_text(only_ours + (confirming.parent / "both.pub").read_text())
        asked.unlink(missing_ok=True)
        by_ssh = subprocess.run([*destination_of(spec).command(), "true"], check=False, timeout=300)
        assert by_ssh.returncode == 0
        assert asked.exists() == known
        asked.unlink(missing_ok=True)
        with open_host(spec, "ssh") as host:
            assert host.transport.run(["true"]).exit == 0
        assert asked.exists() == known
        if known:
            (tmp_path / "config").write_text(f"IdentityAgent {confirming}\nIdentityFile none\n")
            with pytest.raises(HostError, match="agent does not sign with the key both") as raised:
                open_host(spec, "ssh")
            assert "ssh-add" in str(raised.value.hint)
    finally:
        listed.write_text(only_ours)


def string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


@contextlib.contextmanager
def listing(path: Path, blobs: Sequence[bytes]) -> Iterator[None]:
    """An agent that lists keys with a comment in Latin-1, and signs with none."""
    keys = b"".join(string(blob) + string(b"J\xfcrgen") for blob in blobs)
    answers = {11: bytes([12]) + struct.pack(">I", len(blobs)) + keys, 13: bytes([5])}

    class Answers(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                question = self.rfile.read(struct.unpack(">I", size)[0])
                self.wfile.write(string(answers.get(question[0], bytes([5]))))

    with socketserver.ThreadingUnixStreamServer(str(path), Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.parametrize(
    "blob",
    [
        string(b"ssh-ed25519") + string(bytes(32)),
        string(b"ssh-ed25519") + string(b"short"),
        string(b"ssh-rsa") + string(b"") + string(b""),
        string(b"ecdsa-sha2-nistp256") + string(b"nistp256") + string(b"\4" + b"\1" * 64),
        string(b"sk-ssh-ed25519@openssh.com") + string(bytes(32)) + string(b"ssh:"),
        string(b"ssh-ed25519-cert-v01@openssh.com") + string(bytes(32)),
        string(b"\xff\xfe") + b"xx",
        string(b"a type of tomorrow") + b"xx",
        b"",
    ],
)
def test_keys_of_an_agent_that_cannot_be_used_are_passed_over_as_by_ssh(
    sshd: Sshd, tmp_path: Path, blob: bytes
) -> None:
    config = f"IdentityAgent {tmp_path}/agent\nIdentityFile {sshd.key}\n"
    (tmp_path / "config").write_text(config)
    spec = sshd.host_spec(tmp_path / "work", key=None, ssh_config=str(tmp_path / "config"))
    with listing(tmp_path / "agent", [blob]):
        command = [*destination_of(spec).command(), "true"]
        by_ssh = subprocess.run(command, capture_output=True, check=False, timeout=300)
        assert by_ssh.returncode == 0
        with open_host(spec, "ssh") as host:
            assert host.transport.run(["true"]).exit == 0
