"""A host of the cluster: its transport, its lock, what runs there, what it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from perfrunner.cluster.extra import require_ssh
from perfrunner.cluster.facts import Facts, read_facts
from perfrunner.cluster.ledger import Process
from perfrunner.cluster.local import LocalTransport
from perfrunner.cluster.lock import HostLock, lock_host
from perfrunner.cluster.process import StopResult
from perfrunner.cluster.ssh import SshTransport
from perfrunner.cluster.ssh_config import Endpoint, way_to
from perfrunner.spec.cluster import HostSpec


@dataclasses.dataclass(frozen=True)
class Swept:
    """One ledger entry that was cleared, and how its process had ended or was ended."""

    process: Process
    result: StopResult


class Host:
    """Context manager: leaving it gives up the lock and the connection; started processes go on.

    The transport's methods are reached through `transport`; `start` adds this run's id to the ledger.
    """

    def __init__(self, transport: LocalTransport | SshTransport, run_id: str = "") -> None:
        self.transport = transport
        self.run_id = run_id
        self._lock: HostLock | None = None
        self._machine = True
        self._deployed: dict[str, Path] = {}

    def __enter__(self) -> Host:  # noqa: PYI034  typing.Self needs 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.transport.name

    @property
    def work_dir(self) -> str:
        return self.transport.work_dir

    def boot_id(self) -> str:
        """The same for all hosts that are one machine."""
        return self.transport.read_text("/proc/sys/kernel/random/boot_id").strip()

    def facts(self) -> Facts:
        """What the host is and how it is set at this moment; see perfrunner.cluster.facts."""
        return read_facts(self.transport)

    def lock(self, *, machine: bool = True) -> None:
        """Take the host for this run; HostInUse, naming the holder, when another run has it.

        `machine`: also against runs in other work directories (not for a second host on a machine that is locked).
        """
        if self._lock is None:
            self._machine = machine
            self._lock = lock_host(self.transport, self.run_id, machine=machine)

    @property
    def locked(self) -> bool:
        """False once the lock was lost (with the link): another run may be measuring there."""
        return self._lock is not None and self._lock.held

    def unlock(self) -> None:
        """Give it up; the connection stays."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def lock_again(self) -> None:
        """Over a new connection, whether or not the host has noticed that the old one is gone. HostError as `lock`."""
        self.unlock()
        self.transport.open_work_dir(self.work_dir)  # a host that restarted may have lost it
        self._lock = lock_host(self.transport, self.run_id, machine=self._machine, again=True)

    def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        log_stdout: str,
        log_stderr: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Process:
        """Transport.start under this run's id."""
        return self.transport.start(
            argv,
            name=name,
            log_stdout=log_stdout,
            log_stderr=log_stderr,
            env=env,
            cwd=cwd,
            run_id=self.run_id,
        )

    def processes(self) -> list[Process]:
        """Everything in the ledger, of whatever run."""
        return self.transport.processes()

    def sweep(self, run_id: str | None = None, *, grace_s: float = 5.0) -> list[Swept]:
        """Stop what `run_id` (None: any run) left running and clear its ledger entries.

        Take the lock first: it proves that the run is over. Only what matches by pid, start time and boot id is
        signalled; what escaped its process group is reported in `orphans`, not killed.
        """
        return [
            Swept(process, process.stop(grace_s))
            for process in self.processes()
            if run_id is None or process.run_id == run_id
        ]

    def deploy(self, artifact: Path, build_id: str) -> str:
        """The artifact's directory on the host; sent and verified at most once per Host and build id.

        Its time there is that of its last use, for `clean --keep`.
        """
        remote = f"{self.work_dir}/artifacts/{build_id}"
        if build_id not in self._deployed:
            self.transport.put_tree(artifact, remote)
            self._deployed[build_id] = artifact
        return remote

    def deploy_again(self) -> None:
        """All that was deployed and still is here, to a host that may have lost it."""
        deployed, self._deployed = self._deployed, {}
        for build_id, artifact in deployed.items():
            if artifact.is_dir():
                self.deploy(artifact, build_id)

    def close(self) -> None:
        self.unlock()
        self.transport.close()


def way_of(spec: HostSpec) -> tuple[Endpoint, ...]:
    """The hops to it and, last, its own sshd. HostError: its ssh_config cannot be read."""
    return way_to(
        spec.address,
        port=spec.port if "port" in spec.model_fields_set else None,
        user=spec.user,
        key=spec.key,
        config=spec.ssh_config,
    )


def data_address(spec: HostSpec) -> str:
    """Where clients and other nodes reach its engine: they do not know what our ssh_config calls it."""
    return spec.data_address or way_of(spec)[-1].address


def open_host(
    spec: HostSpec, transport: Literal["local", "ssh"], *, name: str = "", run_id: str = ""
) -> Host:
    """Connect and create the work directory. `name` is the host's name in the cluster file."""
    link: LocalTransport | SshTransport
    if transport == "local":
        link = LocalTransport(name or "local")
    else:
        require_ssh()
        link = SshTransport(
            name or spec.address,
            way_of(spec),
            known_hosts=spec.known_hosts,
            host_keys=spec.host_keys,
        )
    try:
        link.open_work_dir(spec.work_dir)
    except BaseException:
        link.close()
        raise
    return Host(link, run_id)
