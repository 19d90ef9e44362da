"""The hosts of a run: opened, locked, swept, described, given the run's secret; and left as they were found."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfrunner.build.place import Platform, platform_here
from perfrunner.cluster import Host, data_address, open_host
from perfrunner.cluster.tuning import BY_HAND, restore, told, tune, tuned_by
from perfrunner.errors import HostError, PerfrunnerError
from perfrunner.run.events import HostReady, Listener, Warned
from perfrunner.run.preflight.health import host_findings, platform_finding
from perfrunner.run.trial.credentials import Credentials
from perfrunner.run.trial.seats import Seat
from perfrunner.run.trial.validity import changed_facts
from perfrunner.spec.cluster import LOOPBACK, ClusterSpec, HostSpec
from perfrunner.spec.cpus import ANY, AUTO

_SAID_AT_THE_START = ("governor", "load", "clock source", "disk")
REGAIN_EVERY_S = 1.0


@dataclass
class RunHosts:
    """Open hosts by name. `first_facts` are those that the experiment began with (also before a resume)."""

    hosts: Mapping[str, Host]
    cluster: ClusterSpec
    run_id: str
    seats: Mapping[str, Seat]
    facts: Mapping[str, Mapping[str, object]]
    credentials: Credentials

    @property
    def engine_nodes(self) -> list[Seat]:
        return [self.seats[name] for name in self.cluster.engine_nodes]

    @property
    def load_clients(self) -> list[Seat]:
        return [self.seats[name] for name in self.cluster.load_clients]

    def changes(self, first: Mapping[str, Mapping[str, object]]) -> list[str]:
        """What must hold still on the hosts and does not any more."""
        return _changes(first, {name: host.facts() for name, host in self.hosts.items()})

    def changes_told(self, first: Mapping[str, Mapping[str, object]]) -> list[str]:
        """As `changes`, by what the hosts said when they were opened or regained: none is asked."""
        return _changes(first, self.facts)

    @property
    def locked(self) -> bool:
        """False when a lock went with its link: another run may be measuring there by now."""
        return all(host.locked for host in self.hosts.values())

    def regain(self, patience_s: float) -> None:
        """Connections, locks, and an end to what this run left there; HostError when a host stays away that long.

        A host that is back is cleared while others are waited for, and asked anew: it may go once more.
        """
        deadline = time.monotonic() + patience_s
        cleared: set[str] = set()
        while True:
            facts: dict[str, Mapping[str, object]] = {}
            missing: HostError | None = None
            for name, host in self.hosts.items():
                try:
                    if name not in cleared or not host.locked:
                        self._regain_host(name, host)
                        cleared.add(name)
                    facts[name] = host.facts()
                except HostError as error:
                    missing = missing or error
            if missing is None and self.locked:
                self.facts = facts
                return
            if missing is not None and time.monotonic() > deadline:
                raise missing
            time.sleep(REGAIN_EVERY_S)

    def _regain_host(self, name: str, host: Host) -> None:
        host.lock_again()
        host.sweep(self.run_id)
        if self.facts[name].get("boot_id") != host.boot_id():
            # Its work directory may be empty: on a tmpfs, or of another disk.
            host.deploy_again()
            self.credentials.install(host.transport, f"{self.seats[name].run_dir}/secret")

    def stop_everything(self, grace_s: float) -> None:
        """What the ledgers of the hosts have of this run. A host that is gone does not hinder the others."""
        for host in self.hosts.values():
            with contextlib.suppress(HostError):
                host.sweep(self.run_id, grace_s=grace_s)


def _changes(
    first: Mapping[str, Mapping[str, object]], now: Mapping[str, Mapping[str, object]]
) -> list[str]:
    return [
        f"{name}: {change}"
        for name, facts in now.items()
        for change in changed_facts(first.get(name, {}), facts)
    ]


def refuse_unfit(cluster: ClusterSpec, run_id: str, built_for: Platform) -> None:
    """Before anything is built: HostError at the first host that cannot be reached, or cannot run what is built."""
    for name in dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)):
        with open_host(cluster.hosts[name], cluster.transport, name=name, run_id=run_id) as host:
            _check_platform(name, host.facts(), built_for)


def _check_platform(name: str, facts: Mapping[str, object], built_for: Platform) -> None:
    if unfit := platform_finding(name, facts, built_for):
        raise HostError(f"{name}: {unfit.text}", hint=unfit.remedy)


@contextlib.contextmanager
def open_hosts(
    cluster: ClusterSpec,
    run_id: str,
    listener: Listener,
    *,
    quieten: bool = False,
    built_for: Platform | None = None,
    engine_cpus: str = ANY,
) -> Iterator[RunHosts]:
    """Every host that measures. HostError names the first that cannot be used; nothing stays locked then.

    `built_for`: what the programs are built for; none: this machine.
    `quieten`: tuned until we leave, on engine nodes with the interrupts off `engine_cpus` where these are named. What a
    killed run left tuned is put back in any case.
    """
    names = list(dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)))
    credentials = Credentials()
    built_for = built_for or platform_here()
    with contextlib.ExitStack() as stack:
        hosts: dict[str, Host] = {}
        seats: dict[str, Seat] = {}
        facts: dict[str, Mapping[str, object]] = {}
        machines: set[str] = set()  # several hosts of a cluster may be one
        for name in names:
            spec = cluster.hosts[name]
            host = stack.enter_context(open_host(spec, cluster.transport, name=name, run_id=run_id))
            facts[name] = host.facts()
            _check_platform(name, facts[name], built_for)
            boot_id = host.boot_id()
            host.lock(machine=boot_id not in machines)
            machines.add(boot_id)
            host.sweep()  # the lock proves that whoever left something here is gone
            left_tuned = tuned_by(host) not in (None, BY_HAND)
            if left_tuned:
                restore(host)
            if quieten:
                stack.callback(_put_back, host, run_id, listener)
                named = name in cluster.engine_nodes and engine_cpus not in (AUTO, ANY)
                _quieten(host, run_id, engine_cpus if named else "", listener)
            if left_tuned or quieten:
                facts[name] = host.facts()
            run_dir = f"{host.work_dir}/runs/{run_id}"
            host.transport.remove_tree(run_dir)
            stack.callback(_clear, host, run_dir)
            files = credentials.install(host.transport, f"{run_dir}/secret")
            local = _clients_are_here(cluster, name)
            address = "127.0.0.1" if local else data_address(spec)
            everywhere = "::" if ":" in address else "0.0.0.0"  # every user has a password
            seats[name] = Seat(
                host=host.transport,
                run_dir=run_dir,
                credentials=files,
                address=address,
                listen="127.0.0.1" if local else everywhere,
                ssh=None if cluster.transport == "local" else ssh_command(spec),
            )
            hosts[name] = host
            role = _role(cluster, name)
            listener.on_event(
                HostReady(name, role, facts[name], tuple(_warnings(name, facts[name])))
            )
        yield RunHosts(hosts, cluster, run_id, seats, facts, credentials)


def _quieten(host: Host, run_id: str, engine_cpus: str, listener: Listener) -> None:
    for refused in told(tune(host, run_id, engine_cpus).refused):
        listener.on_event(
            Warned(f"{host.name}: {refused} cannot be changed", "only root may, on real hardware")
        )


def _put_back(host: Host, run_id: str, listener: Listener) -> None:
    """However the run ends; a host that is gone is put back by the next run there, or by untune."""
    try:
        restore(host, run_id)
    except HostError as error:
        listener.on_event(Warned(str(error), "perfrunner untune puts it back"))


def ssh_command(spec: HostSpec) -> str:
    """For reproduce.sh."""
    words = ["ssh"]
    if spec.ssh_config:
        words += ["-F", spec.ssh_config]
    if "port" in spec.model_fields_set or not spec.ssh_config:
        words += ["-p", str(spec.port)]
    if spec.key:
        words += ["-i", spec.key]
    if spec.known_hosts:
        words += ["-o", f'UserKnownHostsFile="{spec.known_hosts}"']  # a list of words
    if spec.host_keys != "strict":
        words += ["-o", f"StrictHostKeyChecking={spec.host_keys}"]
    return shlex.join([*words, f"{spec.user}@{spec.address}" if spec.user else spec.address])


def _warnings(name: str, facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Of all that a doctor would say, what a run should not begin without having heard."""
    for finding in host_findings(name, facts):
        if finding.grade != "ok" and finding.subject in _SAID_AT_THE_START:
            yield finding.text, finding.remedy


def _clients_are_here(cluster: ClusterSpec, name: str) -> bool:
    """Whether every client, and every other node, reaches the engine on `name` by loopback."""
    if cluster.transport == "local":
        return True
    if {*cluster.load_clients, *cluster.engine_nodes} == {name}:
        return True
    return data_address(cluster.hosts[name]) in LOOPBACK


def _role(cluster: ClusterSpec, name: str) -> str:
    roles = [("engine", cluster.engine_nodes), ("load client", cluster.load_clients)]
    return " and ".join(role for role, names in roles if name in names)


def _clear(host: Host, run_dir: str) -> None:
    with contextlib.suppress(PerfrunnerError):
        host.transport.remove_tree(run_dir)
