"""What must hold of a recorded run: linearizable reigns, no reported mutation lost, one version for each seqno."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.support.dcp_client import MUTATION, Message
from tests.support.history.checker import Search
from tests.support.history.clients import COUNTERS, KEYS, vbucket_of
from tests.support.history.record import Entry, Recorder, Reign
from tests.support.history.register import ABSENT, Call, Version, step


class HistoryError(AssertionError):
    """A history that no correct server gives."""


@dataclass
class Versions:
    """Which version each (vBucket, uuid, seqno) names, by all that any node or answer reported."""

    _known: dict[tuple[int, int, int], tuple[bytes, int, bytes | None]] = field(
        default_factory=dict
    )

    def add(
        self, place: tuple[int, int, int], key: bytes, cas: int, value: bytes | None, output: str
    ) -> None:
        """Add a version. Raises HistoryError if another one has the place. `value` None: not known."""
        known = self._known.get(place)
        if known is None:
            self._known[place] = (key, cas, value)
            return
        if known[:2] != (key, cas) or (None not in (value, known[2]) and value != known[2]):
            vbucket, uuid, seqno = place
            raise HistoryError(
                f"vBucket {vbucket}, uuid {uuid:x}, seqno {seqno} names two versions: {known} and,"
                f" by {output}, {(key, cas, value)}"
            )
        if known[2] is None:
            self._known[place] = (key, cas, value)

    def add_entries(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            call = entry.call
            if call.seqno:
                exact = call.kind in ("set", "add", "replace")
                value = call.argument if exact else call.value if call.kind == "incr" else None
                place = (entry.vbucket, entry.uuid, call.seqno)
                self.add(place, entry.key, call.cas, value, f"the answer to a client's {call.kind}")

    def add_messages(
        self, messages: Iterable[Message], logs: Sequence[Sequence[tuple[int, int]]], output: str
    ) -> None:
        """Add the versions of messages. `logs` are the failover logs of the node that sent them, by vBucket."""
        for message in messages:
            if message.is_document:
                place = (
                    message.vbucket,
                    uuid_of(logs[message.vbucket], message.seqno),
                    message.seqno,
                )
                value = message.value if message.opcode == MUTATION else None
                self.add(place, message.key, message.cas, value, output)


def uuid_of(log: Sequence[tuple[int, int]], seqno: int) -> int:
    """Return the history that a seqno belongs to; the newest entry of the log is first."""
    return next((uuid for uuid, start in log if start < seqno), log[-1][0])


@dataclass
class Verifier:
    """Checks reigns in their order, each once its successor has begun, or at the end of the run."""

    recorder: Recorder
    versions: Versions = field(default_factory=Versions)
    operations: int = 0  # that were checked
    _next: int = 0
    _finished: int = 0
    _initial: dict[bytes, frozenset[Version]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._initial = _nothing()

    def check_finished(self) -> None:
        """Check every reign that has a successor. Raises HistoryError."""
        while self._next + 1 < len(self.recorder.reigns):
            reign = self.recorder.reigns[self._next]
            entries = self.check(reign)
            self._succeed(reign, self.recorder.reigns[self._next + 1], entries)
            self._finished += len(entries)
            self.recorder.forget(reign.number)
            self._next += 1

    def check_current(self) -> None:
        """Check the current reign up to now."""
        self.check_finished()
        entries = self.check(self.recorder.reigns[self._next])
        self.operations = self._finished + len(entries)

    def check(self, reign: Reign) -> list[Entry]:
        if self.recorder.unexpected:
            raise HistoryError("; ".join(self.recorder.unexpected[:3]))
        entries = self.recorder.entries(reign.number)
        closed = self.recorder.closed.get(reign.number)
        for entry in entries:
            if closed is not None and entry.call.begin > closed and entry.call.outcome != "unknown":
                raise HistoryError(
                    f"reign {reign.number}: {_told(entry)} after its node was demoted"
                )
            uuid = reign.starts[entry.vbucket].uuid
            if entry.uuid not in (0, uuid):
                raise HistoryError(
                    f"reign {reign.number}: {_told(entry)} in the history {entry.uuid:x}, not {uuid:x}"
                )
        self.versions.add_entries(entries)
        by_key: dict[bytes, list[Call]] = defaultdict(list)
        for entry in entries:
            by_key[entry.key].append(entry.call)
        for key, calls in by_key.items():
            search = Search(calls, step)
            if not search.linearizable(self._initial[key]):
                raise HistoryError(
                    f"reign {reign.number} ({reign.cause}): {len(calls)} operations on {key.decode()} are not"
                    f" linearizable; {_around(calls, search.culprit)}; from"
                    f" {sorted(map(str, self._initial[key]))[:4]}"
                )
        return entries

    def check_boundaries(
        self, entries: Sequence[Entry], boundaries: Sequence[tuple[int, int, dict[bytes, int]]]
    ) -> None:
        """Compare what a DCP client had at the end of each snapshot with the state at that seqno.

        `boundaries` are the vBucket, the seqno, and the seqno of each document. Only mutations whose answers are known
        can be compared: a later version of a key may be one without an answer.
        """
        known = {(entry.vbucket, entry.call.seqno): entry for entry in entries if entry.call.seqno}
        newest: dict[tuple[int, bytes], Entry] = {}
        last: dict[int, int] = {}
        for vbucket, seqno, held in boundaries:
            changed = set()
            for at in range(last.get(vbucket, 0) + 1, seqno + 1):
                if (entry := known.get((vbucket, at))) is not None:
                    newest[vbucket, entry.key] = entry
                    changed.add(entry.key)
            last[vbucket] = seqno
            for key in changed:
                entry = newest[vbucket, key]
                at = held.get(key, 0)
                gone = entry.call.kind == "delete" and at == 0
                unanswered = at > entry.call.seqno and (vbucket, at) not in known
                if not (gone or unanswered or at == entry.call.seqno):
                    removed = at == 0 and any(
                        e.key == key and e.call.kind == "delete" and e.call.outcome == "unknown"
                        for e in entries
                    )
                    if not removed:
                        raise HistoryError(
                            f"vBucket {vbucket}: at the end of the snapshot {seqno} a DCP client has"
                            f" {key.decode()} of seqno {at}, not {entry.call.seqno}"
                        )

    def _succeed(self, reign: Reign, heir: Reign, entries: Sequence[Entry]) -> None:
        """Compute what each key may hold when the next reign begins."""
        self._require_new_histories(heir)
        if heir.empty:
            self._initial = _nothing()
            return
        if heir.node == reign.node:
            for vbucket, start in heir.starts.items():
                persisted = self.recorder.persisted.get((reign.number, vbucket), 0)
                if start.high < persisted:
                    raise HistoryError(
                        f"reign {heir.number} ({heir.cause}): vBucket {vbucket} begins at seqno {start.high},"
                        f" but {persisted} had been reported as persisted"
                    )
        writes: dict[bytes, list[Call]] = defaultdict(list)
        for entry in entries:
            if not heir.loses and entry.call.seqno > heir.starts[entry.vbucket].cut:
                raise HistoryError(
                    f"reign {heir.number} ({heir.cause}): {_told(entry)} with seqno {entry.call.seqno},"
                    f" but the next history begins at {heir.starts[entry.vbucket].cut}"
                )
            if entry.call.changes:
                writes[entry.key].append(entry.call)
        replicated = dict(self.recorder.replicated.get(heir.number, []))
        for key, before in self._initial.items():
            start = heir.starts[vbucket_of(key)]
            least = next(
                (c.seqno for c in writes[key] if c.seqno and c.cas == replicated.get(key)), 0
            )
            self._initial[key] = frozenset(
                version
                for version in _survivors(before, writes[key], start.cut, start.high)
                if not version.known or version.seqno >= least
            )

    def _require_new_histories(self, heir: Reign) -> None:
        for vbucket, start in heir.starts.items():
            earlier = [r.starts[vbucket].uuid for r in self.recorder.reigns[: heir.number]]
            if start.uuid in earlier:
                raise HistoryError(
                    f"reign {heir.number} ({heir.cause}): vBucket {vbucket} keeps the history {start.uuid:x},"
                    " although mutations may have been lost"
                )


def _nothing() -> dict[bytes, frozenset[Version]]:
    return {key: frozenset([ABSENT]) for key in [*KEYS, *COUNTERS]}


def _survivors(
    before: Iterable[Version], writes: Sequence[Call], cut: int, high: int
) -> Iterable[Version]:
    """Return the possible versions of a key after a loss of all mutations beyond `cut`, except some up to `high`."""
    acknowledged = sorted((c for c in writes if c.seqno), key=lambda c: c.seqno)
    kept = [c for c in acknowledged if c.seqno <= cut]
    if kept:
        yield _version(kept[-1])
    else:
        yield from before
    yield from (_version(c) for c in acknowledged if cut < c.seqno <= high)
    for call in writes:
        if not call.seqno:  # it may have come too late for the acknowledged ones, or never
            value = call.argument if call.kind in ("set", "add", "replace") else None
            known = value is not None or call.kind == "delete"
            yield Version(value, seqno=high, known=known)


def _version(call: Call) -> Version:
    if call.kind == "delete":
        return Version(seqno=call.seqno)
    if call.kind == "append":  # of what, only the search knows
        return Version(cas=call.cas, seqno=call.seqno, known=False)
    value = call.value if call.kind == "incr" else call.argument
    return Version(value, call.cas, call.seqno)


def _told(entry: Entry) -> str:
    return f"{entry.call.kind} of {entry.key.decode()} was answered {entry.call.outcome}"


def _around(calls: Iterable[Call], culprit: Call | None) -> str:
    """Return the calls up to the one that could not be placed, with times from the first one shown."""
    ordered = sorted(calls, key=lambda call: call.begin)
    last = next((n for n, call in enumerate(ordered) if call is culprit), len(ordered) - 1)
    shown = ordered[max(last - 8, 0) : last + 1]
    zero = shown[0].begin
    return "the last ones:" + "".join(f"\n  {call.described(zero)}" for call in shown)
