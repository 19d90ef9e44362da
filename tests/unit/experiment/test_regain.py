"""Waiting for hosts: those that are back are cleared at once, and one that goes again is waited for once more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from perfrunner.errors import HostError
from perfrunner.experiment.preflight import hosts as module
from perfrunner.experiment.preflight.hosts import RunHosts


@dataclass
class FakeHost:
    """`up`: whether it answers, question by question (the last one indefinitely)."""

    up: list[bool]
    boot: str = "b1"
    locked: bool = False
    did: list[str] = field(default_factory=list)

    def _asked(self, what: str) -> None:
        if not (self.up.pop(0) if len(self.up) > 1 else self.up[0]):
            self.locked = False
            raise HostError("away")
        self.did.append(what)

    def lock_again(self) -> None:
        self._asked("lock")
        self.locked = True

    def sweep(self, run_id: str) -> None:
        self._asked("sweep")

    def boot_id(self) -> str:
        return self.boot

    def deploy_again(self) -> None:
        self.did.append("deploy")

    def facts(self) -> dict[str, object]:
        self._asked("facts")
        return {"boot_id": self.boot, "kernel": "6"}


class FakeCredentials:
    def install(self, host: object, directory: str) -> None:
        pass


@dataclass
class FakePlacement:
    run_dir: str = "runs/r"


def waiting(monkeypatch: pytest.MonkeyPatch, **hosts: FakeHost) -> RunHosts:
    monkeypatch.setattr(module, "REGAIN_EVERY_S", 0.001)
    for host in hosts.values():
        host.transport = object()  # type: ignore[attr-defined]
    facts = {name: {"boot_id": "b1", "kernel": "6"} for name in hosts}
    unused: Any = None
    placements: Any = {name: FakePlacement() for name in hosts}
    credentials: Any = FakeCredentials()
    given: Any = hosts
    return RunHosts(given, unused, "r", placements, facts, credentials)


def test_a_host_that_goes_again_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again = FakeHost([True, True, False, True])  # lock, sweep; gone as it is asked what it is
    late = FakeHost([False, False, True])
    hosts = waiting(monkeypatch, again=again, late=late)
    reasons: list[HostError] = []
    hosts.regain(5.0, reasons.append)
    assert hosts.locked
    assert again.did == ["lock", "sweep", "lock", "sweep", "facts", "facts"]
    assert hosts.recorded_changes(hosts.facts) == []
    assert [reason.message for reason in reasons] == ["away"], "once, however long it takes"


def test_those_that_are_back_do_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their engines would go on until then."""
    dead, alive = FakeHost([False]), FakeHost([True])
    hosts = waiting(monkeypatch, dead=dead, alive=alive)
    with pytest.raises(HostError, match="away"):
        hosts.regain(0.0, print)
    assert alive.did[:2] == ["lock", "sweep"]


def test_a_host_that_restarted_gets_what_it_may_have_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    same, restarted = FakeHost([True]), FakeHost([True], boot="b2")
    waiting(monkeypatch, same=same, restarted=restarted).regain(5.0, print)
    assert same.did == ["lock", "sweep", "facts"]
    assert restarted.did == ["lock", "sweep", "deploy", "facts"]
