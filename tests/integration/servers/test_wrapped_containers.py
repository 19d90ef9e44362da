"""Which process of a container is measured. A program that starts its command on this machine stands for podman."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.command_server import (
    CommandServer,
    CommandSetup,
    ServerCommand,
    free_ports,
)
from perfrunner.experiment.trial.placement import CredentialFiles
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.hosts.container import Image
from perfrunner.hosts.local import LocalTransport
from tests.integration.servers.conftest import memcached, script

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PODMAN = """
import json, os, signal, subprocess, sys
if "run" not in sys.argv:
    sys.exit(0)
options = dict(word.partition("=")[::2] for word in sys.argv if word.startswith("--"))
with open(options["--pidfile"], "w") as file:
    file.write(str(os.getpid()))
argv = [*json.loads(options["--entrypoint"]), *sys.argv[sys.argv.index("image") + 1:]]
"""
EXECS = "os.execv(argv[0], argv)\n"
WAITS = """
child = subprocess.Popen(argv)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
sys.exit(child.wait())
"""


class Contained:
    """memcached, started by a program that plays podman."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.host = LocalTransport("here")
        self.host.open_work_dir(str(directory))
        self.started: list[CommandServer] = []

    def start(self, *, rest: str) -> CommandServer:
        trial = f"{self.directory}/trial"
        podman = script(self.directory / "podman", PODMAN + rest)
        words = memcached("-u", "root", "-l", "127.0.0.1")["server"]["command"]
        command = ServerCommand(
            words[0], tuple(words[1:]), "memcached", "text", image=Image("image", "", (podman,))
        )
        setup = CommandSetup(
            name="server", tools="", directory=trial, credentials=CredentialFiles(trial),
            listen="127.0.0.1", address="127.0.0.1", port=free_ports(self.host, "python3", trial, 1)[0],
            env={}, command=command, python="python3",
        )  # fmt: skip
        recorder = ScriptRecorder("test")
        self.started.append(CommandServer.start(self.host, setup, recorder.variant(0), ""))
        return self.started[-1]


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Contained]:
    made = Contained(tmp_path)
    yield made
    for server in made.started:
        server.abandon(10.0)


def test_the_first_process_of_a_container_serves(contained: Contained):
    server = contained.start(rest=EXECS)
    server.wait_ready(time.monotonic() + 60)
    assert server.listener == server.handle.pid


def test_a_container_whose_first_process_waits_for_the_server_is_refused(contained: Contained):
    server = contained.start(rest=WAITS)
    with pytest.raises(TrialError, match=r"started another process .*memcached"):
        server.wait_ready(time.monotonic() + 60)
