"""The register that a key is: its operations and their answers, and what each answer says of its contents."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

UNANSWERED: Final = math.inf


@dataclass(frozen=True)
class Call:
    """An operation on a key: what was asked, when, and the answer. Times are of one monotonic clock.

    `outcome` is `ok`, `missing` (no document), `exists` (there is one, or its CAS is another) or `unknown`.
    `seqno` orders the mutations of a history; 0 if the answer has none.
    """

    kind: str  # get, set, add, replace, delete, append, incr
    begin: float
    end: float = UNANSWERED
    outcome: str = "unknown"
    argument: bytes = b""  # to store, to append, or the number to add
    expected_cas: int = 0  # 0: any
    value: bytes = b""  # that was read, or the number after an increment
    cas: int = 0
    seqno: int = 0

    @property
    def changes(self) -> bool:
        """Return whether the call may have changed the key."""
        return self.kind != "get" and self.outcome in ("ok", "unknown")

    def described(self, zero: float) -> str:
        """Return a line for a message, with times in milliseconds from `zero`."""
        end = "?" if self.end == UNANSWERED else f"{1e3 * (self.end - zero):.2f}"
        facts = {"argument": self.argument, "expected_cas": self.expected_cas, "value": self.value}
        facts |= {"cas": self.cas, "seqno": self.seqno}
        given = " ".join(f"{name}={value!r}" for name, value in facts.items() if value)
        return f"{1e3 * (self.begin - zero):.2f}..{end} {self.kind} {self.outcome} {given}"


@dataclass(frozen=True)
class Version:
    """What a key holds. `value` None: no document. An unknown CAS is 0; `known` False: any document, or none."""

    value: bytes | None = None
    cas: int = 0
    seqno: int = 0
    known: bool = True


ABSENT: Final = Version()


def step(state: Version, call: Call) -> Version | None:
    """Return the state after a call, or None if no register in this state gives its answer."""
    if not state.known:
        return _of_unknown(state, call)
    present = state.value is not None
    same_cas = 0 in (call.expected_cas, state.cas) or call.expected_cas == state.cas
    if call.kind == "get":
        if call.outcome == "missing":
            return None if present else state
        if not present or state.value != call.value or state.cas not in (0, call.cas):
            return None
        return replace(state, cas=call.cas)
    if call.outcome == "missing":
        wants_document = call.kind != "add" and (call.kind != "set" or call.expected_cas)
        return state if not present and wants_document else None
    if call.outcome == "exists":
        if call.kind == "add":
            return state if present else None
        differs = call.expected_cas and state.cas != call.expected_cas
        return state if present and differs else None
    needs_document = call.kind in ("replace", "delete", "append") or call.expected_cas != 0
    if (call.kind == "add" and present) or (needs_document and not (present and same_cas)):
        return None
    return _after(state, call)


def _of_unknown(state: Version, call: Call) -> Version | None:
    """Learn from a call what the state was."""
    if call.kind == "get":
        if call.outcome == "missing":
            return Version(seqno=state.seqno)
        return Version(call.value, call.cas, state.seqno)
    if call.outcome in ("missing", "exists"):
        return Version(seqno=state.seqno) if call.outcome == "missing" else state
    if 0 < call.seqno <= state.seqno:
        return None
    if call.kind == "append" or (call.kind == "incr" and call.outcome == "unknown"):
        return replace(state, seqno=call.seqno or state.seqno)
    return _after(state, call)


def _after(state: Version, call: Call) -> Version | None:
    """Return the version that a successful write leaves; None if its seqno or its number contradicts the state."""
    if 0 < call.seqno <= state.seqno:
        return None
    seqno = call.seqno or state.seqno
    if call.kind == "delete":
        return Version(seqno=seqno)
    if call.kind == "append":
        return Version((state.value or b"") + call.argument, call.cas, seqno)
    if call.kind != "incr":
        return Version(call.argument, call.cas, seqno)
    if not state.known:
        return Version(call.value, call.cas, seqno)
    number = b"%d" % (0 if state.value is None else int(state.value) + int(call.argument))
    if call.outcome == "ok" and number != call.value:
        return None
    return Version(number, call.cas, seqno)
