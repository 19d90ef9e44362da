"""The hosts of a run: opened, locked, swept, described, given the run's secret; and left as they were found."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfrunner.cluster import Host, open_host
from perfrunner.errors import HostError, PerfrunnerError
from perfrunner.run.events import HostReady, Listener
from perfrunner.run.preflight.health import host_findings
from perfrunner.run.trial.credentials import Credentials
from perfrunner.run.trial.seats import Seat
from perfrunner.run.trial.validity import changed_facts
from perfrunner.spec.cluster import ClusterSpec, HostSpec

_SAID_AT_THE_START = ("governor", "load", "clock source", "disk")
REGAIN_EVERY_S = 1.0
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass
class RunHosts:
    """Open hosts by name. `first_facts` are those that the experiment began with (also before a resume)."""

    hosts: Mapping[str, Host]
    cluster: ClusterSpec
    run_id: str
    seats: Mapping[str, Seat]
    facts: Mapping[str, Mapping[str, object]]

    @property
    def engine_nodes(self) -> list[Seat]:
        return [self.seats[name] for name in self.cluster.engine_nodes]

    @property
    def load_clients(self) -> list[Seat]:
        return [self.seats[name] for name in self.cluster.load_clients]

    def changes(self, first: Mapping[str, Mapping[str, object]]) -> list[str]:
        """What must hold still on the hosts and does not any more."""
        found = []
        for name, host in self.hosts.items():
            found += [
                f"{name}: {change}" for change in changed_facts(first.get(name, {}), host.facts())
            ]
        return found

    @property
    def locked(self) -> bool:
        """False when a lock went with its link: another run may be measuring there by now."""
        return all(host.locked for host in self.hosts.values())

    def regain(self, patience_s: float) -> None:
        """Connections, locks, and an end to what this run left there; HostError when a host stays away that long."""
        deadline = time.monotonic() + patience_s
        for host in self.hosts.values():
            while True:
                try:
                    host.lock_again()
                    host.sweep(self.run_id)
                    break
                except HostError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(REGAIN_EVERY_S)
        self.facts = {name: host.facts() for name, host in self.hosts.items()}

    def stop_everything(self, grace_s: float) -> None:
        """What the ledgers of the hosts have of this run. A host that is gone does not hinder the others."""
        for host in self.hosts.values():
            with contextlib.suppress(HostError):
                host.sweep(self.run_id, grace_s=grace_s)


@contextlib.contextmanager
def open_hosts(cluster: ClusterSpec, run_id: str, listener: Listener) -> Iterator[RunHosts]:
    """Every host of a role. HostError names the first that cannot be used; nothing stays locked then."""
    names = list(dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)))
    credentials = Credentials()
    with contextlib.ExitStack() as stack:
        hosts: dict[str, Host] = {}
        seats: dict[str, Seat] = {}
        facts: dict[str, Mapping[str, object]] = {}
        for name in names:
            spec = cluster.hosts[name]
            host = stack.enter_context(open_host(spec, cluster.transport, name=name, run_id=run_id))
            host.lock()
            host.sweep()  # the lock proves that whoever left something here is gone
            run_dir = f"{host.work_dir}/runs/{run_id}"
            host.transport.remove_tree(run_dir)
            stack.callback(_clear, host, run_dir)
            files = credentials.install(host.transport, f"{run_dir}/secret")
            local = _clients_are_here(cluster, name)
            seats[name] = Seat(
                host=host.transport,
                run_dir=run_dir,
                credentials=files,
                address="127.0.0.1" if local else spec.address,
                listen="127.0.0.1" if local else "0.0.0.0",  # every user has a password
                ssh=None if cluster.transport == "local" else ssh_command(spec),
            )
            facts[name] = host.facts()
            hosts[name] = host
            role = _role(cluster, name)
            listener.on_event(
                HostReady(name, role, facts[name], tuple(_warnings(name, facts[name])))
            )
        yield RunHosts(hosts, cluster, run_id, seats, facts)


def ssh_command(spec: HostSpec) -> str:
    """For reproduce.sh."""
    words = ["ssh", "-p", str(spec.port)]
    if spec.key:
        words += ["-i", spec.key]
    return shlex.join([*words, f"{spec.user}@{spec.address}" if spec.user else spec.address])


def _warnings(name: str, facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Of all that a doctor would say, what a run should not begin without having heard."""
    for finding in host_findings(name, facts):
        if finding.grade != "ok" and finding.subject in _SAID_AT_THE_START:
            yield finding.text, finding.remedy


def _clients_are_here(cluster: ClusterSpec, name: str) -> bool:
    """Whether every client reaches the engine on `name` by loopback."""
    if cluster.transport == "local" or set(cluster.load_clients) == {name}:
        return True
    return cluster.hosts[name].address in LOOPBACK


def _role(cluster: ClusterSpec, name: str) -> str:
    roles = [("engine", cluster.engine_nodes), ("load client", cluster.load_clients)]
    return " and ".join(role for role, names in roles if name in names)


def _clear(host: Host, run_dir: str) -> None:
    with contextlib.suppress(PerfrunnerError):
        host.transport.remove_tree(run_dir)
