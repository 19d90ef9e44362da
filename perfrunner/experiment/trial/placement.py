"""Describe where the programs of a trial run: hosts, directories, credentials, interpreters, logs."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import HostError, TrialError
from perfrunner.hosts.process import ExitStatus
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec

if TYPE_CHECKING:
    from perfrunner.experiment.trial.command_server import ServerCommand

USER = "perfrunner"


@dataclass(frozen=True)
class CredentialFiles:
    """The absolute paths of the credentials on a host."""

    directory: str

    @property
    def users(self) -> str:
        """Return the path of the engine's file: {"name": "password"}."""
        return f"{self.directory}/users.json"

    @property
    def password(self) -> str:
        """Return the path of the clients' file, which contains only the password."""
        return f"{self.directory}/password"

    def of_server(self, name: str) -> str:
        """Return the path of the file with only the password of a server that is not the engine."""
        return f"{self.directory}/{name}.password"


class Credentials:
    """The passwords of one run, held in memory only and not shown by repr.

    They are the engines', and by name those of other servers.
    """

    def __init__(self) -> None:
        self._password = secrets.token_urlsafe(24)
        self.servers: dict[str, str] = {}

    def install(self, host: Transport, directory: str) -> CredentialFiles:
        files = CredentialFiles(directory)
        host.makedirs(directory)
        host.put_bytes(json.dumps({USER: self._password}).encode(), files.users, mode=0o600)
        host.put_bytes(self._password.encode(), files.password, mode=0o600)
        for name, password in self.servers.items():
            host.put_bytes(password.encode(), files.of_server(name), mode=0o600)
        return files

    @staticmethod
    def remove(host: Transport, directory: str) -> None:
        """Remove the files. An unreachable host keeps a password that no engine accepts any more."""
        with contextlib.suppress(HostError):
            host.remove_tree(directory)


LINES, CHARACTERS = 3, 600


def log_tail(host: Transport, log: str) -> str:
    """Return the last lines of a log on one line; empty if it is empty or missing."""
    text = host.run(["tail", "-n", str(LINES), log], check=False).stdout
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-CHARACTERS:]


@dataclass(frozen=True)
class Placement:
    """A host of the run: its directories and credentials, and the addresses of its engines."""

    host: Transport
    run_dir: str  # <work_dir>/runs/<run id>
    credentials: CredentialFiles
    address: str
    listen: str
    ssh: str | None  # the command that connects to it; None: this machine


@dataclass(frozen=True)
class Deployed:
    """A variant that is deployed: the paths of its artifact, and the environment of its engine.

    `tools` are the paths of the artifact that provides the load generators and samplers for all variants.
    """

    build_id: str
    paths: Mapping[str, str]  # host name -> absolute path of the artifact
    env: Mapping[str, str]
    tools: Mapping[str, str]  # host name -> absolute path of the tools' artifact
    layout_seed: int | None = None  # seed of the link order; None: not relinked
    server: ServerCommand | None = None  # None: the engine
    settings: Mapping[str, str] = field(default_factory=dict)  # of a server, as read back


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial; `directory` contains its files."""

    task: TrialKey
    status: TrialStatus
    reason: str
    started_at: datetime
    finished_at: datetime
    directory: Path
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


def trial_name(task: TrialKey) -> str:
    """Return the name of a trial's directory in `trials/`."""
    name = f"{task.block}-{task.workload}-{task.bucket}-{task.variant}"
    group = f"-e{task.group}" if task.group > 1 else ""
    again = f"-{task.attempt}" if task.attempt > 1 else ""
    return f"{name}{group}{again}"


def remote_name(task: TrialKey, variants: Iterable[str]) -> str:
    """Return the name of a trial's directory on the hosts.

    It has the same length for every variant, because the heap contains paths and grows with them.
    """
    return trial_name(task) + "_" * (max(map(len, variants)) - len(task.variant))


def fresh_directory(path: Path) -> Path:
    """Create an empty directory; remove what a killed run left of the same trial."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


USUAL = "python3"


def client_python(spec: Spec, host: str) -> str:
    """Return the Python of a host's clients.

    It is that of the spec, else on this machine the one that runs perfrunner, else the host's `python3`.
    """
    if spec.client.python is not None:
        return spec.client.python
    return sys.executable if spec.cluster.is_here(host) else USUAL


@dataclass(frozen=True)
class ClientPlacement:
    """A load client in a trial: its host, with the tools, the trial's directory and the credentials."""

    host: Transport
    tools: str
    directory: str
    credentials: CredentialFiles
    cpus: str = ""  # CPUs of the load processes; empty: any
    python: str = "python3"  # the interpreter of Python programs


def client_failure(
    tool: str, placement: ClientPlacement, name: str, status: ExitStatus
) -> TrialError:
    """Return an error with the end of the log of process `name`."""
    tail = log_tail(placement.host, f"{placement.directory}/{name}.log") or "no output"
    return TrialError(f"{tool} on {placement.host.name} failed ({status}): {tail}")


def local_address(listen: str) -> str:
    """Return the address by which a server's own host reaches it: loopback for a wildcard address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)
