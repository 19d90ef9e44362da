"""Define the record of a run: every operation with its begin and end, the reigns of active nodes, and their reports.

A *reign* is the time in which one process is the active node: it begins when clients are sent there and ends with a
crash, a promotion elsewhere or a planned switch. Its histories, one for each vBucket, have uuids of their own.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field, replace

from tests.support.history.register import Call


@dataclass(frozen=True)
class Entry:
    """A call as one client made it. `uuid` is the history that the answer to a mutation named."""

    key: bytes
    vbucket: int
    reign: int
    call: Call
    uuid: int = 0


@dataclass(frozen=True)
class Start:
    """How the history of a vBucket begins: with all mutations up to `cut` of the one before, and perhaps some more.

    `high` is the last seqno that the vBucket has then: above `cut` if a replica was promoted in mid-snapshot.
    """

    uuid: int
    cut: int
    high: int


@dataclass(frozen=True)
class Reign:
    """`loses`: mutations that were only acknowledged may be gone at its begin. `empty`: everything is gone then."""

    number: int
    node: int
    port: int
    cause: str
    starts: dict[int, Start]  # by vBucket
    loses: bool = True
    empty: bool = False


@dataclass(frozen=True)
class Target:
    """Where clients send operations now."""

    reign: int
    port: int


@dataclass
class Recorder:
    """Thread-safe. `target` is None while no node is active, or while clients pause."""

    reigns: list[Reign] = field(default_factory=list)
    closed: dict[int, float] = field(default_factory=dict)  # when a node had confirmed its demotion
    persisted: dict[tuple[int, int], int] = field(default_factory=dict)  # by reign, vBucket
    replicated: dict[int, list[tuple[bytes, int]]] = field(default_factory=dict)  # key, CAS
    answers: int = 0  # so far, refusals left out
    unexpected: list[str] = field(default_factory=list)
    _target: Target | None = None
    _entries: list[Entry] = field(default_factory=list)
    _pending: dict[int, Entry] = field(default_factory=dict)
    _ids: itertools.count[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def target(self) -> Target | None:
        return self._target

    def send_clients(self, target: Target | None) -> None:
        self._target = target

    def begin(self, entry: Entry) -> int:
        """Record that an operation is about to be sent; returns its number."""
        number = next(self._ids)
        with self._lock:
            self._pending[number] = entry
        return number

    def end(self, number: int, answered: Entry | None) -> None:
        """Record an answer; None if none came. A refused operation has had no effect and is forgotten."""
        with self._lock:
            begun = self._pending.pop(number)
            if answered is None:
                self._entries.append(begun)
            elif answered.call.outcome != "refused":
                self.answers += 1
                self._entries.append(answered)

    def saw_persisted(self, reign: int, vbucket: int, seqno: int) -> None:
        with self._lock:
            at = (reign, vbucket)
            self.persisted[at] = max(seqno, self.persisted.get(at, 0))

    def entries(self, reign: int) -> list[Entry]:
        """Return every operation of a reign; unfinished ones count as unanswered."""
        with self._lock:
            results = [entry for entry in self._entries if entry.reign == reign]
            return results + [entry for entry in self._pending.values() if entry.reign == reign]

    @property
    def idle(self) -> bool:
        """True if no operation is in flight."""
        with self._lock:
            return not self._pending

    def forget(self, reign: int) -> None:
        """Drop the operations of a reign that has been checked."""
        with self._lock:
            self._entries = [entry for entry in self._entries if entry.reign != reign]

    def close(self, reign: int) -> None:
        """Record that the node of a reign has confirmed that it is not active any more."""
        self.closed[reign] = time.monotonic()


def answered(entry: Entry, outcome: str, **facts: int | bytes) -> Entry:
    """Return the entry with its answer, which arrived now."""
    uuid = int(facts.pop("uuid", 0))
    call = replace(entry.call, end=time.monotonic(), outcome=outcome, **facts)  # type: ignore[arg-type]
    return replace(entry, call=call, uuid=uuid)
