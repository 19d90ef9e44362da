"""Hold the hosts of a run: notice a lost connection, wait for the hosts, and record what has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from perfrunner.errors import HostError
from perfrunner.experiment import events as ev
from perfrunner.experiment.preflight.describe import note_changes
from perfrunner.experiment.preflight.hosts import RunHosts
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.session import RunContext
from perfrunner.hosts import LinkLost

REGAIN_PATIENCE_S = 600.0  # long enough for a host to restart
TRIES = 3
LOCK_LOST = "the run's lock on a host was lost with the connection"
Done = TypeVar("Done")


class HeldHosts:
    """The hosts of a run with their locks. `recorded` are the host facts that must not change."""

    def __init__(
        self, context: RunContext, recorder: Recorder, hosts: RunHosts, facts: dict[str, Any]
    ) -> None:
        self._context = context
        self._recorder = recorder
        self._hosts = hosts
        self._facts = facts  # of the experiment
        self.recorded = hosts.facts

    def hold(self) -> None:
        """Wait for the hosts if a connection was lost."""
        if not self._hosts.locked:
            self.regain(LOCK_LOST)

    def check(self) -> None:
        """Raise LinkLost if the run no longer holds its locks: the last results may have been disturbed."""
        if not self._hosts.locked:
            raise LinkLost(LOCK_LOST)

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
        self._context.listener.on_event(ev.Warned(f"{why}; waiting for the hosts"))
        self._context.journal.append("link-lost", why=why)
        self._hosts.regain(REGAIN_PATIENCE_S)
        if changes := self._hosts.recorded_changes(self.recorded):
            note_changes(self._facts, self._hosts.facts, changes)
            self._context.store.set_facts(self._context.session.experiment.id, self._facts)
            for case in self._recorder.schedule.restart_partial_cases():
                self._context.journal.append("case-again", case=case, why=changes)
        self.recorded = self._hosts.facts
        self._recorder.start_clock()  # the wait must not count as trial time
        self._context.journal.append("link-regained", changes=changes)
