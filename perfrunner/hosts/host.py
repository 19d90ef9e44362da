"""Combine what a run does with one host of the cluster: transport, lock, processes, facts, deployment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from perfrunner.errors import HostError, require_ssh
from perfrunner.hosts.container import remove
from perfrunner.hosts.facts import Facts, read_facts
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.lock import HostLock, lock_host
from perfrunner.hosts.openssh import Destination, resolve
from perfrunner.hosts.process import StopResult
from perfrunner.hosts.registry import Process
from perfrunner.paths import with_home
from perfrunner.spec.cluster import HostSpec

if TYPE_CHECKING:
    from perfrunner.hosts.ssh import SshTransport


@dataclasses.dataclass(frozen=True)
class Swept:
    """One cleared entry of the process registry, and the result of stopping its process."""

    process: Process
    result: StopResult


class Host:
    """A host of the cluster, used by one run.

    Leaving the context releases the lock and closes the connection; started processes keep running. `transport` has the
    operations on files and commands. `start` records this run's id in the process registry.
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
        """Return the kernel's boot id, which is the same for all hosts that share one machine."""
        return self.transport.read_text("/proc/sys/kernel/random/boot_id").strip()

    def facts(self) -> Facts:
        """Return the host's current facts (see perfrunner.hosts.facts)."""
        return read_facts(self.transport)

    def lock(self, *, machine: bool = True) -> None:
        """Lock the host for this run; raise HostInUse, naming the holder, when another run has it.

        `machine`: also lock out runs in other work directories (not for a second host on a locked machine).
        """
        if self._lock is None:
            self._machine = machine
            self._lock = lock_host(self.transport, self.run_id, machine=machine)

    @property
    def locked(self) -> bool:
        """False once the lock is lost with the link: another run may be measuring there."""
        return self._lock is not None and self._lock.held

    def unlock(self) -> None:
        """Release the lock and keep the connection."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def lock_again(self) -> None:
        """Lock the host over a new connection, even if it has not noticed the end of the old one.

        Raises HostError as `lock` does.
        """
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
        """Start a process as Transport.start does, under this run's id."""
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
        """Return every process in the process registry, of any run."""
        return self.transport.processes()

    def sweep(self, run_id: str | None = None, *, grace_s: float = 5.0) -> list[Swept]:
        """Stop the processes that `run_id` (None: any run) left running and clear their registry entries.

        Take the lock first, which checks that the run is over. Only processes that match by pid, start time and boot id
        are signalled. Processes that left their process group are reported in `orphans`, not killed; a
        container is removed.
        """
        swept = []
        for process in self.processes():
            if run_id is None or process.run_id == run_id:
                remove(self.transport, process.entry.argv)  # while the entry is there to try again
                swept.append(Swept(process, process.stop(grace_s)))
                remove(self.transport, process.entry.argv)  # of a podman that was still starting
        return swept

    def deploy(self, artifact: Path, build_id: str) -> str:
        """Send an artifact to the host, at most once per Host and build id, and return its directory there.

        The directory's modification time is the time of its last use, for `clean --keep`.
        """
        remote = f"{self.work_dir}/artifacts/{build_id}"
        if build_id not in self._deployed:
            self.transport.put_tree(artifact, remote)
            self._deployed[build_id] = artifact
        return remote

    def deploy_again(self) -> None:
        """Deploy again, to a host that may have lost them, all artifacts that still exist here."""
        deployed, self._deployed = self._deployed, {}
        for build_id, artifact in deployed.items():
            if artifact.is_dir():
                self.deploy(artifact, build_id)

    def close(self) -> None:
        """Release the lock and close the connection."""
        self.unlock()
        self.transport.close()


def destination_of(spec: HostSpec) -> Destination:
    """Return what the cluster file says about the way to a host."""
    return Destination(
        spec.address,
        port=spec.port,
        user=spec.user,
        key=spec.key,
        config=spec.ssh_config,
        known_hosts=spec.known_hosts,
        host_keys=spec.host_keys,
    )


def data_address(spec: HostSpec) -> str:
    """Return the address at which clients and other nodes reach the host's engine.

    It is never an alias of our ssh_config, which they do not know.
    """
    return spec.data_address or resolve(destination_of(spec)).host


def open_host(
    spec: HostSpec, transport: Literal["local", "ssh"], *, name: str = "", run_id: str = ""
) -> Host:
    """Connect to a host and create its work directory. `name` is the host's name in the cluster file."""
    link: LocalTransport | SshTransport
    if transport == "local":
        link = LocalTransport(name or "local")
    else:
        require_ssh()
        if spec.key is not None and not with_home(spec.key).exists():
            raise HostError(f"{name or spec.address}: no such key file: {spec.key}")
        from perfrunner.hosts.ssh import SshTransport  # a run on this machine needs no SSH

        link = SshTransport(name or spec.address, resolve(destination_of(spec)))
    try:
        link.open_work_dir(spec.work_dir)
    except BaseException:
        link.close()
        raise
    return Host(link, run_id)
