"""Faults in the course of a run, and the rounds that a run is made of.

A round is a while of load, a fault under load, and a look at everything: clients pause, the nodes become equal, their
contents are compared, and the recorded histories are checked.
"""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from tests.support.dcp_client import MARKER, MUTATION, DcpClient, Message, View
from tests.support.history.clients import COUNTERS, KEYS, VBUCKETS, Client
from tests.support.history.cluster import ACTIVE, REPLICA, Node, Pair, pair, wait_for
from tests.support.history.record import Recorder, Reign, Start, Target
from tests.support.history.verify import HistoryError, Verifier

CLIENTS = 6
# How often the load stops at the end of a round, and how long it lasts in between.
STOPS, STOP_S = 6, 0.03
LOAD_S = (0.2, 0.8)  # of load before a fault, and after it


@final
class Observer(threading.Thread):
    """A DCP client of the active node in one reign, which checks the rules of streams as they go on."""

    def __init__(self, port: int, logs: list[list[tuple[int, int]]]) -> None:
        super().__init__(name="observer", daemon=True)
        self.logs = logs
        self.problem: str | None = None
        self.boundaries: list[tuple[int, int, dict[bytes, int]]] = []  # vBucket, seqno, contents
        self._ending = threading.Event()
        self.client = DcpClient(port, "observer", timeout=30)
        for vbucket in range(VBUCKETS):
            assert self.client.open_stream(vbucket).status == 0

    def run(self) -> None:
        views = [View() for _ in range(VBUCKETS)]
        done = 0
        try:
            while not self._ending.is_set():
                try:
                    self.client.until(lambda got, seen=done: len(got) > seen, timeout=0.2)  # type: ignore[misc]
                except AssertionError:  # nothing came
                    continue
                for message in self.client.messages[done:]:
                    if message.opcode == MARKER or message.is_document:
                        views[message.vbucket].apply([message], message.vbucket)
                        self._note_boundary(message.vbucket, views[message.vbucket])
                done = len(self.client.messages)
        except AssertionError as error:
            self.problem = str(error)
        except OSError:
            pass  # the node was killed

    def _note_boundary(self, vbucket: int, view: View) -> None:
        if view.snapshots and view.seqno == view.snapshots[-1][1]:
            held = {key: seqno for key, (seqno, _) in view.documents.items()}
            self.boundaries.append((vbucket, view.seqno, held))

    def stop(self) -> None:
        self._ending.set()
        self.join(60)
        self.client.close()


def documents(contents: list[dict[bytes, Message]]) -> list[dict[bytes, tuple[int, int, bytes]]]:
    """Return seqno, CAS and value of each live document, by vBucket and key."""
    return [
        {key: (m.seqno, m.cas, m.value) for key, m in copy.items() if m.opcode == MUTATION}
        for copy in contents
    ]


@dataclass(frozen=True)
class Progress:
    """How far a run has come: whole rounds, and operations that were checked."""

    rounds: int = 0
    operations: int = 0


@dataclass
class Run:
    """One run against one pair of nodes. `faults` are names of methods below."""

    nodes: Pair
    seed: int
    faults: Sequence[str]
    synced: Path | None = None
    settle_s: float = 60.0
    recorder: Recorder = field(default_factory=Recorder)
    progress: Progress = Progress()

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self.verifier = Verifier(self.recorder)
        self._observer: Observer | None = None
        self._clients = [Client(n, self.recorder, self.seed) for n in range(CLIENTS)]

    def run(self, done: Callable[[Progress], bool]) -> None:
        """Play rounds until `done`. Raises HistoryError or StuckError for a history that no correct server gives."""
        self._reign("start")
        for client in self._clients:
            client.start()
        try:
            while not done(self.progress):
                fault = self._draw.choice(self.faults)
                self._load()
                getattr(self, fault)()
                self._load()
                self._look()
                self.progress = Progress(self.progress.rounds + 1, self.verifier.operations)
        finally:
            for client in self._clients:
                client.stop()
            if self._observer is not None:
                self._observer.stop()

    # -- faults

    def crash(self) -> None:
        """Kill the active node and start it again with its stored data."""
        node = self.nodes.master
        node.kill()
        self._restart_active(node, "crash")

    def lose_disk(self) -> None:
        """Restart the active node on an empty disk. It may get more than the replica, which keeps its copy."""
        node, replica = self.nodes.master, self.nodes.replica
        node.kill()
        wait_for("the replica is cut off", lambda: replica.replication()["connected"] == "0")
        held, high = documents(replica.contents()), replica.high_seqnos()
        shutil.rmtree(node.data)
        self._restart_active(node, "lost disk", empty=True)
        if self._draw.random() < 0.5:
            wait_for(
                "the active node has more than the copy",
                lambda: all(n > h for n, h in zip(node.high_seqnos(), high, strict=True)),
                progress=node.high_seqnos,  # the copy has the writes of all rounds so far
            )
        kept = {vbucket for vbucket, copy in enumerate(held) if copy}
        wait_for("the replica keeps its copies", lambda: replica.kept_copies() == kept)
        if any(documents(replica.contents())[vbucket] != held[vbucket] for vbucket in kept):
            raise HistoryError("a replica has changed a copy that its source does not know")

    def power_cut(self) -> None:
        """Cut the power of the active node, which loses everything that was not synced."""
        node = self.nodes.master
        assert self.synced is not None
        node.cut_power(self.synced)
        self._restart_active(node, "power cut")

    def fill_disk(self) -> None:
        """Fill the disk of a node for a while."""
        node = self._draw.choice(self.nodes.nodes)
        node.full.touch()
        self._load()
        node.full.unlink()

    def crash_on_a_full_disk(self) -> None:
        """Kill the active node while its disk is full, and start it again when there is room."""
        node = self.nodes.master
        node.full.touch()
        self._load()
        node.kill()
        node.full.unlink()
        self._restart_active(node, "crash on a full disk")

    def fail_over(self) -> None:
        """Kill the active node, promote the replica, and start the old node as its replica."""
        old = self.nodes.master
        replicated = self._replicated()
        old.kill()
        self._promote("failover", replicated)
        old.start()
        self._rejoin(old)

    def fail_over_apart(self) -> None:
        """Fail over after the replica was cut off for a while: mutations are lost and rolled back."""
        self.nodes.replica.link.cut()
        self.nodes.master.link.cut()
        self._load()
        old = self.nodes.master
        replicated = self._replicated()
        old.kill()
        self._promote("failover after a partition", replicated)
        self._heal()
        old.start()
        self._load()
        self._rejoin(old)

    def fail_over_catching_up(self) -> None:
        """Fail over while a reconnected replica has a part of what it missed: an incomplete snapshot."""
        old, heir = self.nodes.master, self.nodes.replica
        for node in self.nodes.nodes:
            node.link.cut()
        self._load()
        before = heir.high_seqnos()
        for node in self.nodes.nodes:
            node.link.slow = True
            node.link.heal()
        wait_for("the replica gets more", lambda: heir.high_seqnos() != before)
        old.kill()
        self._promote("failover in mid-snapshot", [])
        for node in self.nodes.nodes:
            node.link.slow = False
        old.start()
        self._rejoin(old)

    def fail_over_paused(self) -> None:
        """Stop the active node (SIGSTOP), fail over, let the old node continue, and demote it."""
        old = self.nodes.master
        replicated = self._replicated()
        old.signal(signal.SIGSTOP)
        self._promote("failover from a paused node", replicated, to=[self.nodes.replica])
        self._load()
        old.signal(signal.SIGCONT)
        self._rejoin(old, closes=len(self.recorder.reigns) - 2)

    def switch_over(self) -> None:
        """Demote the active node, and promote the replica once it has everything."""
        old, heir = self.nodes.master, self.nodes.replica
        old.set_state(REPLICA)
        self.recorder.close(len(self.recorder.reigns) - 1)
        wait_for(
            "the replica has every mutation before it is promoted",
            lambda: heir.high_seqnos() == old.high_seqnos(),
            self.settle_s,
        )
        self._promote("planned switch", [], loses=False)
        self.nodes.publish([old])

    def pause_replica(self) -> None:
        """Stop the replica for a while."""
        replica = self.nodes.replica
        replica.signal(signal.SIGSTOP)
        self._load()
        replica.signal(signal.SIGCONT)

    def discard_replica(self) -> None:
        """Empty the replica while its streams are open; it gets everything again."""
        self.nodes.replica.discard_copies(range(VBUCKETS))

    def partition(self) -> None:
        """Separate the nodes for a while; clients still reach the active one."""
        self.nodes.replica.link.cut()
        self.nodes.master.link.cut()
        self._load()
        self._heal()

    # -- their parts

    def _heal(self) -> None:
        for node in self.nodes.nodes:
            node.link.heal()

    def _load(self) -> None:
        """Wait for a while of load, and for a hundred answers however busy the machine is."""
        enough = self.recorder.answers + 100
        time.sleep(self._draw.uniform(*LOAD_S))
        wait_for("clients have answers", lambda: self.recorder.answers >= enough)

    def _replicated(self) -> list[tuple[bytes, int]]:
        """Return what the replica has of each key now: a promotion must not lose it."""
        return list(self.nodes.replica.cas_of([*KEYS, *COUNTERS]).items())

    def _restart_active(self, node: Node, cause: str, *, empty: bool = False) -> None:
        self.recorder.send_clients(None)
        node.start()
        self.nodes.publish()
        node.set_state(ACTIVE)
        self._reign(cause, empty=empty)

    def _promote(
        self,
        cause: str,
        replicated: list[tuple[bytes, int]],
        *,
        to: list[Node] | None = None,
        loses: bool = True,
    ) -> None:
        """Make the replica the active node. `to`: the nodes that can be reached."""
        self.nodes.active = 1 - self.nodes.active
        self.nodes.publish(to or [self.nodes.master])
        self.nodes.master.set_state(ACTIVE)
        self.recorder.replicated[len(self.recorder.reigns)] = replicated
        self._reign(cause, loses=loses)

    def _rejoin(self, old: Node, closes: int | None = None) -> None:
        old.set_state(REPLICA)
        if closes is not None:
            self.recorder.close(closes)
        self.nodes.publish([old])

    def _reign(self, cause: str, *, loses: bool = True, empty: bool = False) -> None:
        """Begin a reign of the active node, and send clients to it."""
        if self._observer is not None:
            self._finish_observer()
        node = self.nodes.master
        logs, high = node.failover_logs(), node.high_seqnos()
        starts = {
            vbucket: Start(log[0][0], log[0][1], high[vbucket]) for vbucket, log in enumerate(logs)
        }
        number = len(self.recorder.reigns)
        self.recorder.reigns.append(
            Reign(number, node.number, node.port, cause, starts, loses, empty)
        )
        self._observer = Observer(node.port, logs)
        self._observer.start()
        self.recorder.send_clients(Target(number, node.port))

    def _finish_observer(self) -> None:
        assert self._observer is not None
        self._observer.stop()
        if self._observer.problem is not None:
            raise HistoryError(f"a DCP stream breaks its rules: {self._observer.problem}")
        self.verifier.versions.add_messages(
            self._observer.client.messages, self._observer.logs, "a DCP stream"
        )
        entries = self.recorder.entries(len(self.recorder.reigns) - 1)
        self.verifier.check_boundaries(entries, self._observer.boundaries)
        self._observer = None

    def _look(self) -> None:
        """Pause the clients, wait until the nodes are equal, compare what they hold, and check the histories."""
        target = self.recorder.target
        for _ in range(STOPS):  # a wakeup that is lost shows only if no other mutation follows
            self.recorder.send_clients(target)
            time.sleep(STOP_S)
            self.recorder.send_clients(None)
            wait_for("no operation is under way", lambda: self.recorder.idle)
            self.nodes.wait_until_equal(self.settle_s)
        held = [node.contents() for node in self.nodes.nodes]
        for node, contents in zip(self.nodes.nodes, held, strict=True):
            logs = node.failover_logs()
            for by_key in contents:
                self.verifier.versions.add_messages(by_key.values(), logs, f"node {node.number}")
        for vbucket, (first, second) in enumerate(zip(*map(documents, held), strict=True)):
            if first != second:
                different = sorted(k for k in first | second if first.get(k) != second.get(k))
                key = different[0]
                raise HistoryError(
                    f"vBucket {vbucket}: the nodes differ in {len(different)} keys, as {key.decode()}:"
                    f" {first.get(key)} and {second.get(key)}"
                )
        self.verifier.check_current()
        self.recorder.send_clients(target)


PERSISTENT = (
    "crash", "lose_disk", "fail_over", "fail_over_apart", "fail_over_catching_up", "fail_over_paused", "switch_over",
    "pause_replica", "discard_replica", "partition",
)  # fmt: skip
EPHEMERAL = tuple(fault for fault in PERSISTENT if fault != "crash")
WITH_DISK = (*PERSISTENT, "power_cut", "power_cut", "fill_disk", "crash_on_a_full_disk")
SETTINGS = {"persistent": PERSISTENT, "ephemeral": EPHEMERAL, "power": WITH_DISK}


def play(
    setting: str,
    engine: Path,
    directory: Path,
    done: Callable[[Progress], bool],
    *,
    seed: int,
    mutation: str | None = None,
    settle_s: float = 60.0,
) -> Progress:
    """Play a run of a setting (`persistent`, `ephemeral` or `power`) until `done`.

    HistoryError or StuckError if a fault of the engine shows.
    """
    kind = "ephemeral" if setting == "ephemeral" else "persistent"
    power = setting == "power"
    with pair(engine, directory, kind, power=power, mutation=mutation) as nodes:
        synced = directory / "synced" if power else None
        made = Run(nodes, seed, SETTINGS[setting], synced, settle_s)
        made.run(done)
        return made.progress
