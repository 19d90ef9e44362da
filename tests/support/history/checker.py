"""A checker of linearizability for one key: the search of Wing and Gong, with Lowe's memory of configurations.

An operation took effect at one moment between its begin and its end. The search looks for an order of these moments in
which every answer is the one that a key-value register gives. Histories are checked key by key, since a history of
independent objects is linearizable exactly if each object's is (Herlihy and Wing). An operation without an answer may
have taken effect at any moment after its begin, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.support.history.register import UNANSWERED, Call

State = TypeVar("State", bound=Hashable)


@dataclass
class Search(Generic[State]):
    """A search over the orders of some calls. `deepest` says how many calls the longest order found has."""

    calls: Sequence[Call]
    step: Callable[[State, Call], State | None]
    deepest: int = 0

    def __post_init__(self) -> None:
        answered = [call for call in self.calls if call.end != UNANSWERED]
        self._answered = sorted(answered, key=lambda call: call.begin)
        self._least_from = [0] * len(answered)  # the least seqno of a call and those after it
        least = 0
        for at in range(len(answered) - 1, -1, -1):
            seqno = self._answered[at].seqno
            least = min(seqno, least) if seqno and least else seqno or least
            self._least_from[at] = least
        self._unanswered = [c for c in self.calls if c.end == UNANSWERED and c.changes]

    def linearizable(self, initial: Iterable[State]) -> bool:
        """Return whether there is an order that begins in one of the states."""
        # A configuration: how many answered calls from the first on are done, which ones beyond, which unanswered, and
        # the state. Two ways to one configuration have the same future.
        stack: list[tuple[int, int, int, State]] = [(0, 0, 0, state) for state in initial]
        seen = set(stack)
        while stack:
            first, beyond, used, state = stack.pop()
            if first == len(self._answered):
                return True
            for following in self._next(first, beyond, used, state):
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        return False

    def _next(
        self, first: int, beyond: int, used: int, state: State
    ) -> list[tuple[int, int, int, State]]:
        """Return the configurations one call later: a call may be next unless another had ended before it began."""
        self.deepest = max(self.deepest, first)
        window, earliest_end, least_seqno = self._window(first, beyond)
        results = []
        for at in window:
            call = self._answered[at]
            if call.begin > earliest_end or 0 < least_seqno < call.seqno:
                continue
            after = self.step(state, call)
            if after is None:
                continue
            done, start = beyond | 1 << (at - first), first
            while done & 1:
                done, start = done >> 1, start + 1
            if after == state and not call.changes:
                # It hinders no other call: if there is an order at all, there is one that goes on so.
                return [(start, done, used, after)]
            results.append((start, done, used, after))
        for at, call in enumerate(self._unanswered):
            if call.begin <= earliest_end and not used >> at & 1:
                after = self.step(state, call)
                if after is not None and after != state:
                    results.append((first, beyond, used | 1 << at, after))
        results.reverse()  # the call that began first is tried first
        return results

    def _window(self, first: int, beyond: int) -> tuple[list[int], float, int]:
        """Return the answered calls that may be next by the clock, the first end among them, and the least open seqno.

        Mutations take effect in the order of their seqnos, so no other one can be next.
        """
        window: list[int] = []
        earliest_end = UNANSWERED
        seqnos: list[int] = []
        at = first
        while at < len(self._answered) and self._answered[at].begin <= earliest_end:
            if not beyond >> (at - first) & 1:
                window.append(at)
                earliest_end = min(earliest_end, self._answered[at].end)
                seqnos.append(self._answered[at].seqno)
            at += 1
        if at < len(self._answered):
            seqnos.append(self._least_from[at])
        return window, earliest_end, min((s for s in seqnos if s), default=0)

    @property
    def culprit(self) -> Call | None:
        """Return approximately the first answered call that no order could place, for a message."""
        return self._answered[self.deepest] if self.deepest < len(self._answered) else None
