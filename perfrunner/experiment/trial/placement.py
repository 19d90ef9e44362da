"""Describe where the programs of a trial run: hosts, CPUs, directories, credentials, interpreters, logs.

CPUs: engine and load run on disjoint sets, the same for every variant. `auto` splits the host's CPUs as reported by
hwloc (`kvctl topology` of the artifact) into whole cores, neighbours in package and cache together; the engine gets
the first half. Nothing is pinned on a host with one CPU, or if engine and clients run on different hosts. Stand-alone
programs are not pinned, because the number of CPUs is part of what they measure.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import HostError, TrialError
from perfrunner.hosts import scripts
from perfrunner.hosts.process import ExitStatus
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec
from perfrunner.spec.units import ANY, AUTO, cpu_list, cpu_numbers

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


LINES, CHARACTERS = 3, 600


def log_tail(host: Transport, log: str) -> str:
    """Return the last lines of a log on one line; if it is empty, why nothing can be written there (a full disk)."""
    text = host.run(["sh", "-c", scripts.LOG_TAIL, "sh", str(LINES), log], check=False).stdout
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


def bracketed(address: str) -> str:
    """Return an address as it is written before a port: an IPv6 address in brackets."""
    return f"[{address}]" if ":" in address else address


def trial_name(task: TrialKey) -> str:
    """Return the name of a trial's directory in `trials/`. No name of a spec has a tilde, so trials share none."""
    name = f"{task.block}-{task.workload}-{task.bucket}-{task.variant}"
    group = f"~e{task.group}" if task.group > 1 else ""
    again = f"~{task.attempt}" if task.attempt > 1 else ""
    return f"{name}{group}{again}"


def remote_name(task: TrialKey, variants: Iterable[str]) -> str:
    """Return the name of a trial's directory on the hosts.

    It has the same length for every variant, because the heap contains paths and grows with them. It has no characters
    that separate values, because the command of a server may have it in a list.
    """
    plain = {name: re.sub(r"[^\w.-]", "_", name) for name in variants}
    if len({*plain.values()}) < len(plain):
        plain = {name: f"{number:04}" for number, name in enumerate(plain)}
    name = plain[task.variant]
    return trial_name(replace(task, variant=name)) + "_" * (
        max(map(len, plain.values())) - len(name)
    )


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


@dataclass(frozen=True)
class CpuSets:
    """The CPUs of engine and clients, as kernel lists (`0-3,8`); empty: not pinned."""

    engine: str = ""
    client: str = ""


@dataclass(frozen=True, order=True)
class Cpu:
    """The position of a CPU, ordered so that neighbours in a sorted list are neighbours in the machine."""

    package: int
    l3: int
    core: int
    os_index: int


def pinned(argv: Sequence[str], cpus: str) -> list[str]:
    """Return the command pinned to `cpus`; taskset replaces itself, so the pid is that of the command."""
    return [*(("taskset", "-c", cpus) if cpus else ()), *argv]


def choose(engine: str, client: str, topology: Sequence[Cpu], *, together: bool) -> CpuSets:
    """Return the CPU sets for the values of the spec.

    topology: the usable CPUs of the engine's host.
    together: engine and clients share that host.

    Raises TrialError if the spec names a CPU that is not usable.
    """
    allowed = {cpu.os_index for cpu in topology}
    wanted = [("engine", engine)] + ([("client", client)] if together else [])
    for name, text in wanted:
        if text not in (AUTO, ANY) and not set(cpu_numbers(text)) <= allowed:
            raise TrialError(
                f"{name}.cpus is {text}, but only CPUs {cpu_list(sorted(allowed))} are available"
            )
    if not together:
        return CpuSets(_named(engine), _named(client))
    if engine == AUTO and client == AUTO:
        first, second = _halves(topology)
        return CpuSets(cpu_list(first), cpu_list(second)) if second else CpuSets()
    return CpuSets(
        _rest(allowed, client) if engine == AUTO else _named(engine),
        _rest(allowed, engine) if client == AUTO else _named(client),
    )


def read_topology(host: Transport, artifact: str) -> list[Cpu]:
    """Return the CPUs that our processes on the host may use. Raises HostError if kvctl reports none."""
    output = host.run([f"{artifact}/bin/kvctl", "topology"]).stdout
    try:
        return sorted(
            Cpu(
                package=int(cpu["package"]),
                l3=-1 if cpu["l3"] is None else int(cpu["l3"]),
                core=int(cpu["core"]),
                os_index=int(cpu["os_index"]),
            )
            for cpu in json.loads(output)["cpus"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{host.name}: kvctl topology printed no CPUs: {error!r}") from None


def _named(text: str) -> str:
    return "" if text in (AUTO, ANY) else text


def _rest(allowed: set[int], other: str) -> str:
    """Return the CPUs outside another set; empty (not pinned) if that set is not pinned or has all CPUs."""
    if other in (AUTO, ANY):
        return ""
    left = allowed - set(cpu_numbers(other))
    return cpu_list(sorted(left)) if left else ""


def _halves(topology: Sequence[Cpu]) -> tuple[list[int], list[int]]:
    """Split the CPUs into halves of whole cores; a single core is split by its threads."""
    ordered = sorted(topology)
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in ordered:
        cores.setdefault((cpu.package, cpu.core), []).append(cpu.os_index)
    units = list(cores.values()) if len(cores) > 1 else [[cpu.os_index] for cpu in ordered]
    if len(units) < 2:
        return [], []
    cut = len(units) // 2
    return [n for unit in units[:cut] for n in unit], [n for unit in units[cut:] for n in unit]
