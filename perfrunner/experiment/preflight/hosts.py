"""Open the hosts of a run: lock, clean and describe them, install credentials; restore them at the end.

HeldHosts notices a lost connection, waits for the hosts, and records what has changed.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from perfrunner.build.builders import Platform, platform_here
from perfrunner.errors import HostError, PerfrunnerError
from perfrunner.experiment import events as ev
from perfrunner.experiment.events import HostReady, Listener, Warned
from perfrunner.experiment.preflight.health import (
    host_findings,
    platform_finding,
    refuse,
    work_dir_finding,
)
from perfrunner.experiment.preflight.requirements import note_changes
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.session import RunContext
from perfrunner.experiment.trial.outcome import changed_facts
from perfrunner.experiment.trial.placement import CredentialFiles, Credentials, Placement
from perfrunner.hosts import Host, LinkLost, Transport, data_address, destination_of, open_host
from perfrunner.hosts.tuning import BY_HAND, restore, summarized, tune, tuned_by
from perfrunner.spec.cluster import LOOPBACK, ClusterSpec, HostSpec
from perfrunner.spec.units import ANY, AUTO

_WARNED_AT_START = ("governor", "load", "CPU quota", "clock source", "disk", "process limits")
REGAIN_EVERY_S = 1.0


@dataclass
class RunHosts:
    """The open hosts of a run, by name, with their facts and the placements of engines and clients."""

    hosts: Mapping[str, Host]
    cluster: ClusterSpec
    run_id: str
    placements: Mapping[str, Placement]
    facts: Mapping[str, Mapping[str, object]]
    credentials: Credentials

    @property
    def engine_nodes(self) -> list[Placement]:
        return [self.placements[name] for name in self.cluster.engine_nodes]

    @property
    def load_clients(self) -> list[Placement]:
        return [self.placements[name] for name in self.cluster.load_clients]

    def changes(self, first: Mapping[str, Mapping[str, object]]) -> list[str]:
        """Query the hosts; return which facts that must stay the same have changed since `first`."""
        return _changes(first, {name: host.facts() for name, host in self.hosts.items()})

    def recorded_changes(self, first: Mapping[str, Mapping[str, object]]) -> list[str]:
        """Return the same as `changes`, from the facts of the last opening or reconnection, without a query."""
        return _changes(first, self.facts)

    @property
    def locked(self) -> bool:
        """Return whether all hosts are locked. A lost connection loses the lock, and another run may then measure."""
        return all(host.locked for host in self.hosts.values())

    def regain(self, patience_s: float, report: Callable[[HostError], object]) -> None:
        """Reconnect, lock and clean all hosts. Raises HostError if one is still unreachable after `patience_s`.

        Hosts that are back are checked in every round, because they may disappear again. Each reason for the wait
        is reported once: some, such as a changed host key, need the user.
        """
        reported: set[str] = set()
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
            if missing is not None:
                if time.monotonic() > deadline:
                    raise missing
                if missing.message not in reported:
                    report(missing)
                    reported.add(missing.message)
            time.sleep(REGAIN_EVERY_S)

    def _regain_host(self, name: str, host: Host) -> None:
        host.lock_again()
        host.sweep(self.run_id)
        if self.facts[name].get("boot_id") != host.boot_id():
            # After a restart the work directory may be empty (tmpfs, another disk).
            host.deploy_again()
            self.credentials.install(host.transport, f"{self.placements[name].run_dir}/secret")

    def stop_everything(self, grace_s: float) -> None:
        """Stop all registered processes of this run; skip hosts that cannot be reached."""
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
    """Raise HostError for the first host that is unreachable or cannot run programs built for `built_for`."""
    for name in dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)):
        with open_host(cluster.hosts[name], cluster.transport, name=name, run_id=run_id) as host:
            facts = host.facts()
            refuse([platform_finding(name, facts, built_for), work_dir_finding(name, facts)])


@contextlib.contextmanager
def open_hosts(
    cluster: ClusterSpec,
    run_id: str,
    listener: Listener,
    *,
    tune: bool = False,
    built_for: Platform | None = None,
    engine_cpus: str = ANY,
) -> Iterator[RunHosts]:
    """Open every host of the cluster for a run, and close them at the end.

    built_for: platform that the programs are built for; default: this machine.
    tune: tune the hosts until the end of the run. On engine nodes, interrupts are moved off `engine_cpus` if these
    are named. Settings that a killed run left tuned are always restored.

    Raises HostError for the first host that cannot be used; no host stays locked then.
    """
    names = list(dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)))
    credentials = Credentials()
    built_for = built_for or platform_here()
    with contextlib.ExitStack() as stack:
        hosts: dict[str, Host] = {}
        placements: dict[str, Placement] = {}
        facts: dict[str, Mapping[str, object]] = {}
        machines: set[str] = set()  # boot ids: several hosts of a cluster may be one machine
        for name in names:
            host = stack.enter_context(
                open_host(cluster.hosts[name], cluster.transport, name=name, run_id=run_id)
            )
            facts[name] = host.facts()
            refuse([platform_finding(name, facts[name], built_for)])
            boot_id = host.boot_id()
            host.lock(machine=boot_id not in machines)
            machines.add(boot_id)
            host.sweep()  # safe: the lock ensures that no other run is active
            left_tuned = tuned_by(host) not in (None, BY_HAND)
            if left_tuned:
                restore(host)
            if tune:
                stack.callback(_restore_settings, host, run_id, listener)
                named = name in cluster.engine_nodes and engine_cpus not in (AUTO, ANY)
                _tune(host, run_id, engine_cpus if named else "", listener)
            if left_tuned or tune:
                facts[name] = host.facts()
            run_dir = f"{host.work_dir}/runs/{run_id}"
            host.transport.remove_tree(run_dir)
            if work_dir_finding(name, facts[name]):
                # What was removed may have filled it.
                refuse([work_dir_finding(name, host.facts())])
            stack.callback(_clear, host, run_dir)
            files = credentials.install(host.transport, f"{run_dir}/secret")
            placements[name] = _placement(cluster, name, host.transport, run_dir, files)
            hosts[name] = host
            roles = [("engine", cluster.engine_nodes), ("load client", cluster.load_clients)]
            role = " and ".join(role for role, names in roles if name in names)
            listener.on_event(
                HostReady(name, role, facts[name], tuple(_warnings(name, facts[name])))
            )
        yield RunHosts(hosts, cluster, run_id, placements, facts, credentials)


def _placement(
    cluster: ClusterSpec, name: str, host: Transport, run_dir: str, files: CredentialFiles
) -> Placement:
    local = _clients_are_here(cluster, name)
    address = "127.0.0.1" if local else data_address(cluster.hosts[name])
    everywhere = "::" if ":" in address else "0.0.0.0"  # safe: every user needs a password
    return Placement(
        host=host,
        run_dir=run_dir,
        credentials=files,
        address=address,
        listen="127.0.0.1" if local else everywhere,
        ssh=None if cluster.transport == "local" else ssh_command(cluster.hosts[name]),
    )


def _tune(host: Host, run_id: str, engine_cpus: str, listener: Listener) -> None:
    for refused in summarized(tune(host, run_id, engine_cpus).refused):
        listener.on_event(
            Warned(f"{host.name}: {refused} cannot be changed", "this needs root on real hardware")
        )


def _restore_settings(host: Host, run_id: str, listener: Listener) -> None:
    """Restore the settings of a host at the end of the run.

    An unreachable host is restored by the next run there, or by `perfrunner untune`.
    """
    try:
        restore(host, run_id)
    except HostError as error:
        listener.on_event(Warned(str(error), "restore the host with: perfrunner untune"))


def ssh_command(spec: HostSpec) -> str:
    """Return the ssh command that goes where the run went, for reproduce.sh."""
    return shlex.join(destination_of(spec).command())


def _warnings(name: str, facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield (text, remedy) of the doctor's findings that are shown at the start of a run."""
    for finding in host_findings(name, facts):
        if finding.grade != "ok" and finding.subject in _WARNED_AT_START:
            yield finding.text, finding.remedy


def _clients_are_here(cluster: ClusterSpec, name: str) -> bool:
    """Return whether every client and every other node reaches the engine on `name` by loopback."""
    if cluster.transport == "local":
        return True
    if {*cluster.load_clients, *cluster.engine_nodes} == {name}:
        return True
    return data_address(cluster.hosts[name]) in LOOPBACK


def _clear(host: Host, run_dir: str) -> None:
    with contextlib.suppress(PerfrunnerError):
        host.transport.remove_tree(run_dir)


REGAIN_PATIENCE_S = 600.0  # long enough for a host to restart
TRIES = 3
LOCK_LOST = "the run's lock on a host was lost with its connection, or sshd closed its session (ChannelTimeout)"
Done = TypeVar("Done")


class HeldHosts:
    """The hosts of a run with their locks.

    `recorded` are the host facts that must not change; `losses` counts lost connections.
    """

    def __init__(
        self, context: RunContext, recorder: Recorder, hosts: RunHosts, facts: dict[str, Any]
    ) -> None:
        self._context = context
        self._recorder = recorder
        self._hosts = hosts
        self._facts = facts  # of the experiment
        self.recorded = hosts.facts
        self.losses = 0

    def hold(self) -> None:
        """Wait for the hosts if a connection was lost."""
        if not self._hosts.locked:
            self.regain(LOCK_LOST)

    def check(self) -> None:
        """Raise LinkLost if the run no longer holds its locks: the last results may have been disturbed."""
        if not self._hosts.locked:
            raise LinkLost(LOCK_LOST)

    def require_work_dirs(self) -> None:
        """Raise HostError if a work directory was removed or is full: every later trial would fail."""
        for name, host in self._hosts.hosts.items():
            if not host.transport.exists(f"{host.work_dir}/artifacts"):
                raise HostError(
                    f"{name}: the work directory {host.work_dir} was removed during the run",
                    "find out what removes it, or set work_dir in the cluster file to another directory",
                )
            refuse([work_dir_finding(name, host.facts())])

    def _report(self, missing: HostError) -> None:
        self._context.listener.on_event(ev.Warned(missing.message, missing.hint or ""))

    def until_held(self, name: str, work: Callable[[], Done]) -> Done:
        """Do work that is not a unit of trials; repeat all of it if a connection is lost before it ends."""
        self.hold()
        for _ in range(TRIES):
            try:
                done = work()
                self.check()
                return done
            except LinkLost as lost:
                reason = str(lost)
            self.regain(reason)
        raise HostError(
            f"{name}: connection lost {TRIES} times: {reason}",
            "check the network between this machine and the hosts",
        )

    def regain(self, why: str) -> None:
        """Wait until all hosts are reachable and locked again, and record what changed (a host may have restarted).

        Raises HostError if a host does not come back.
        """
        self.losses += 1
        self._context.listener.on_event(ev.Warned(f"{why}; waiting for the hosts"))
        self._context.journal.append("link-lost", why=why)
        self._hosts.regain(REGAIN_PATIENCE_S, self._report)
        if changes := self._hosts.recorded_changes(self.recorded):
            note_changes(self._facts, self._hosts.facts, changes, self._recorder.done)
            self._context.store.set_facts(self._context.session.experiment.id, self._facts)
            for case in self._recorder.schedule.restart_partial_cases():
                self._context.journal.append("case-again", case=case, why=changes)
        self.recorded = self._hosts.facts
        self._recorder.start_clock()  # the wait must not count as trial time
        self._context.journal.append("link-regained", changes=changes)
