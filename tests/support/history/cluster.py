"""Two engine nodes, one active and one replica, whose processes, power and connection a test can take away."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import final

from perfrunner.experiment.trial.vbucket_map import cluster_config
from tests.integration.engine.wire import frame
from tests.support.dcp_client import STREAM_END, TO_LATEST, DcpClient, Message
from tests.support.history.clients import VBUCKETS, session, vbucket_of
from tests.support.ports import free_ports

SET_VBUCKET, DEL_VBUCKET, SET_CONFIG, OBSERVE = 0x3D, 0x3F, 0xB4, 0x92
ACTIVE, REPLICA, DEAD = 1, 2, 4
TMPFAIL = 0x86
SLOW_BYTES, SLOW_S = 256, 0.01
PATIENCE_S = 60.0  # of a busy machine, for what takes a second on an idle one


class StuckError(AssertionError):
    """An error: an expected condition did not come true in time."""


def wait_for(
    what: str,
    condition: Callable[[], bool],
    seconds: float = PATIENCE_S,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Wait until `condition` is true. Raises StuckError if it is not, and `progress` stands still for `seconds`."""
    seen, until = progress(), time.monotonic() + seconds
    while not condition():
        if (now := progress()) != seen:
            seen, until = now, time.monotonic() + seconds
        if time.monotonic() > until:
            raise StuckError(f"not within {seconds:g} s: {what}")
        time.sleep(0.01)


@final
class Link:
    """A proxy in front of a node's port; replication goes through it, and `cut` takes it away.

    While it is `slow`, little gets through at a time, so that a promotion meets a replica in mid-snapshot.
    """

    slow = False

    def __init__(self, port: int) -> None:
        self._to = port
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Stop all traffic while connections stay open, as in a partition."""
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Pass bytes on until either side ends, or the link is cut and heals: then the connection is gone."""
        with near, contextlib.suppress(OSError):
            self._whole.wait()
            with socket.create_connection(("127.0.0.1", self._to), timeout=5) as far:
                others = {near: far, far: near}
                while self._whole.is_set():
                    for ready in select.select([near, far], [], [], 0.05)[0]:
                        if self.slow:
                            time.sleep(SLOW_S)
                        data = ready.recv(SLOW_BYTES if self.slow else 1 << 16)
                        if not data:
                            return
                        others[ready].sendall(data)
                self._whole.wait()


@dataclass
class Node:
    """One engine process on a port and a data directory of its own, which may be started again."""

    number: int
    engine: Path
    directory: Path
    kind: str
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1))
    link: Link = field(init=False)
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self.link = Link(self.port)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def full(self) -> Path:
        """While this file exists, the node's disk is full (disk.c)."""
        return self.directory / "full"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start the process and wait until it serves."""
        ready = self.directory / f"ready-{self.starts}"
        self.starts += 1
        command = [
            str(self.engine), "--port", str(self.port), "--port-file", str(ready), "--bucket-type", self.kind,
            "--data-dir", str(self.data), "--quota-mb", "256", "--vbuckets", str(VBUCKETS), *self.flags,
        ]  # fmt: skip
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "DISK_FULL": str(self.full), **self.environment},
            )
        running = self.process

        def serves() -> bool:
            if running.poll() is not None:
                raise StuckError(f"node {self.number} ended with {running.returncode}: {self.log}")
            return ready.exists()

        wait_for(f"node {self.number} serves", serves)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End the process as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def require_alive(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise StuckError(f"node {self.number} ended by itself: {self.log[-2000:]}")

    def cut_power(self, synced: Path) -> None:
        """Kill the process and take away what it had not synced (disk.c)."""
        self.kill()
        for path in self.data.rglob("*"):
            if path.is_file():
                record = synced / str(path.stat().st_ino)
                size = int(record.read_text()) if record.exists() else 0
                os.truncate(path, min(size, path.stat().st_size))

    def set_state(self, state: int) -> None:
        """Make every vBucket active, or a replica, and wait until that is stored."""
        with session(self.port, PATIENCE_S) as wire:

            def is_set(vbucket: int) -> bool:
                answer = wire.ask(SET_VBUCKET, extras=bytes([state]), vbucket=vbucket)
                # A store that was full needs a few seconds before it takes anything again.
                assert answer.status in {0, TMPFAIL}, (self.number, hex(answer.status))
                return bool(answer.status == 0)

            for vbucket in range(VBUCKETS):
                wait_for("a change of state is stored", partial(is_set, vbucket))

    def high_seqnos(self) -> list[int]:
        """Return the high seqno of each vBucket; -1 if it is dead, as a replica is while it is rolled back."""
        with session(self.port, PATIENCE_S) as wire:
            stats = wire.stats(b"vbucket-seqno")
        return [int(stats.get(f"vb_{vb}:high_seqno", -1)) for vb in range(VBUCKETS)]

    def replication(self) -> dict[str, str]:
        with session(self.port, PATIENCE_S) as wire:
            return wire.stats(b"replication")

    def kept_copies(self) -> set[int]:
        """Return the vBuckets whose copy this replica keeps because its source has another history."""
        kept = [key for key in self.replication() if key.endswith(":copy_kept")]
        return {int(key.removeprefix("vb_").partition(":")[0]) for key in kept}

    def give_up_kept_copies(self) -> None:
        """Discard the copies that this replica keeps."""
        self.discard_copies(self.kept_copies())

    def discard_copies(self, vbuckets: Iterable[int]) -> None:
        """Empty vBuckets of this replica, as an operator does with kvctl discard-copies."""
        with session(self.port, PATIENCE_S) as wire:
            for vbucket in vbuckets:
                for opcode, extras in (
                    (SET_VBUCKET, bytes([DEAD])), (DEL_VBUCKET, b""), (SET_VBUCKET, bytes([REPLICA])),
                ):  # fmt: skip
                    answer = wire.ask(opcode, extras=extras, vbucket=vbucket)
                    assert answer.status == 0, (vbucket, hex(answer.status), answer.value)

    def is_stored(self) -> bool:
        with session(self.port, PATIENCE_S) as wire:
            return str(wire.stats()["ep_queue_size"]) == "0"

    def failover_logs(self) -> list[list[tuple[int, int]]]:
        with DcpClient(self.port, "logs", timeout=PATIENCE_S) as client:
            return [client.failover_log(vbucket) for vbucket in range(VBUCKETS)]

    def contents(self) -> list[dict[bytes, Message]]:
        """Return the last message of every key, by vBucket, as a new DCP client gets them."""
        with DcpClient(self.port, "contents", timeout=PATIENCE_S) as client:
            for vbucket in range(VBUCKETS):
                assert client.open_stream(vbucket, flags=TO_LATEST).status == 0
            ends = client.until(
                lambda got: sum(m.opcode == STREAM_END for m in got) == VBUCKETS, PATIENCE_S
            )
        results: list[dict[bytes, Message]] = [{} for _ in range(VBUCKETS)]
        for message in ends:
            if message.is_document:
                results[message.vbucket][message.key] = message
        return results

    def cas_of(self, keys: list[bytes]) -> dict[bytes, int]:
        """Return the CAS of the documents on this node, active or replica."""
        results = {}
        with session(self.port, PATIENCE_S) as wire:
            for key in keys:
                named = struct.pack(">HH", vbucket_of(key), len(key)) + key
                answer = wire.ask(OBSERVE, value=named)
                state, cas = struct.unpack(">BQ", answer.value[-9:])
                if answer.status == 0 and state in (0, 1):
                    results[key] = cas
        return results

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.link.close()


@dataclass
class Pair:
    """Two nodes; `active` is the number of the one that clients use."""

    nodes: list[Node]
    active: int = 0
    revision: int = 1

    @property
    def master(self) -> Node:
        return self.nodes[self.active]

    @property
    def replica(self) -> Node:
        return self.nodes[1 - self.active]

    def publish(self, to: list[Node] | None = None) -> None:
        """Tell nodes who is active; each reaches the other one through its link."""
        self.revision += 1
        rows = [[self.active, 1 - self.active]] * VBUCKETS
        for node in self.nodes if to is None else to:
            servers = [
                ("127.0.0.1", other.port if other is node else other.link.port)
                for other in self.nodes
            ]
            text = cluster_config(servers, rows, this=node.number, revision=self.revision)
            with session(node.port, PATIENCE_S) as wire:
                wire.send(frame(SET_CONFIG, value=text.encode()))
                answer = wire.answer()
                assert answer.status == 0, (hex(answer.status), answer.value)

    def wait_until_equal(self, seconds: float) -> None:
        """Wait until the replica has all that the active node has, and both have stored it."""
        self.master.require_alive()
        self.replica.require_alive()

        def equal() -> bool:
            self.replica.give_up_kept_copies()
            held = self.replica.high_seqnos()
            return held == self.master.high_seqnos() and min(held) >= 0

        wait_for("the replica has every mutation", equal, seconds)
        wait_for(
            "the replica has the history of the active node",
            lambda: self.replica.failover_logs() == self.master.failover_logs(),
            seconds,
        )
        if self.master.kind == "persistent":
            for node in self.nodes:
                wait_for(f"node {node.number} has stored everything", node.is_stored, seconds)


@contextlib.contextmanager
def pair(
    engine: Path, directory: Path, kind: str, *, power: bool = False, mutation: str | None = None
) -> Iterator[Pair]:
    """Start two nodes, the second as a replica.

    `power`: their power can be cut, so they sync each commit, and their disks can be full.
    """
    environment = {} if mutation is None else {"KV_MUTATION": mutation}
    flags: tuple[str, ...] = ()
    if power:
        synced = directory / "synced"
        synced.mkdir()
        environment |= {"LD_PRELOAD": str(built_disk(directory)), "DISK_SYNCED": str(synced)}
        flags = ("--fsync", "commit")
    nodes = [
        Node(number, engine, directory / f"node-{number}", kind, flags, environment)
        for number in (0, 1)
    ]
    made = Pair(nodes)
    try:
        for node in nodes:
            node.start()
        nodes[0].set_state(ACTIVE)
        nodes[1].set_state(REPLICA)
        made.publish()
        yield made
    finally:
        for node in nodes:
            node.close()


def built_disk(directory: Path) -> Path:
    """Compile disk.c."""
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler is not installed"
    library = directory / "disk.so"
    source = Path(__file__).with_name("disk.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    return library
