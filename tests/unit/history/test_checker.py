"""The checker of histories: known histories, and any small one against a search of every order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.history.checker import Search
from tests.support.history.register import ABSENT, UNANSWERED, Call, Version, step


def linearizable(calls: Sequence[Call], initial: Version = ABSENT) -> bool:
    return Search(calls, step).linearizable([initial])


def put(begin: float, end: float, value: bytes, **more: object) -> Call:
    return Call("set", begin, end, "ok", argument=value, **more)  # type: ignore[arg-type]


def got(begin: float, end: float, value: bytes | None, cas: int = 0) -> Call:
    if value is None:
        return Call("get", begin, end, "missing")
    return Call("get", begin, end, "ok", value=value, cas=cas)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], True),
        ([got(0, 1, None)], True),
        ([got(0, 1, b"a")], False),
        ([put(0, 1, b"a"), got(2, 3, b"a")], True),
        ([put(0, 1, b"a"), got(2, 3, None)], False),  # lost
        ([put(0, 1, b"a"), put(2, 3, b"b"), got(4, 5, b"a")], False),  # stale
        ([put(0, 9, b"a"), got(1, 2, b"a"), got(3, 4, None)], False),  # seen, then not there
        ([put(0, 9, b"a"), got(1, 2, None), got(3, 4, b"a")], True),
        ([put(0, 9, b"a"), put(0, 9, b"b"), got(10, 11, b"a")], True),  # either order
        ([put(0, 9, b"a"), put(0, 9, b"b"), got(10, 11, b"a"), got(12, 13, b"b")], False),
        ([Call("set", 0, argument=b"a"), got(5, 6, None), got(7, 8, b"a")], True),  # late
        ([Call("set", 0, argument=b"a"), got(5, 6, b"a"), got(7, 8, None)], False),
        ([Call("set", 0, argument=b"a"), got(5, 6, None)], True),  # never
        ([Call("set", 3, argument=b"a"), got(1, 2, b"a")], False),  # before it was sent
        ([put(0, 1, b"a"), Call("delete", 2, 3, "ok"), got(4, 5, b"a")], False),  # resurrected
        ([put(0, 1, b"a"), Call("add", 2, 3, "ok", argument=b"b")], False),
        ([put(0, 1, b"a"), Call("add", 2, 3, "exists", argument=b"b")], True),
        ([Call("replace", 0, 1, "ok", argument=b"b")], False),
        ([Call("replace", 0, 1, "missing", argument=b"b")], True),
        ([put(0, 1, b"a"), Call("replace", 2, 3, "missing", argument=b"b")], False),
        ([put(0, 1, b"a", cas=7), put(2, 3, b"b", cas=8, expected_cas=7)], True),
        ([put(0, 1, b"a", cas=7), put(2, 3, b"b", cas=8, expected_cas=6)], False),  # CAS ignored
        ([put(0, 1, b"a", cas=7), got(2, 3, b"a", cas=6)], False),
        (
            [
                put(0, 1, b"a", cas=7),
                Call("set", 2, 3, "exists", argument=b"b", expected_cas=6),
            ],
            True,
        ),
        (
            [
                put(0, 1, b"a", cas=7),
                Call("set", 2, 3, "exists", argument=b"b", expected_cas=7),
            ],
            False,
        ),
        ([put(0, 1, b"a", seqno=5), put(2, 3, b"b", seqno=6)], True),
        ([put(0, 1, b"a", seqno=6), put(2, 3, b"b", seqno=6)], False),  # a seqno given twice
        ([put(0, 9, b"a", seqno=6), put(1, 8, b"b", seqno=5), got(10, 11, b"b")], False),
        ([Call("incr", 0, 1, "ok", b"1", value=b"0"), Call("incr", 2, 3, "ok", b"1", value=b"1")], True),
        ([Call("incr", 0, 9, "ok", b"1", value=b"0"), Call("incr", 0, 9, "ok", b"1", value=b"0")], False),
        ([put(0, 1, b"a"), Call("append", 2, 3, "ok", b"b"), got(4, 5, b"ab")], True),
        ([put(0, 1, b"a"), Call("append", 2, 3, "ok", b"b"), got(4, 5, b"a")], False),
        ([Call("append", 0, 1, "missing", b"b")], True),
    ],
)  # fmt: skip
def test_known_histories(calls: list[Call], expected: bool) -> None:
    assert linearizable(calls) is expected


def test_an_unknown_beginning_is_learnt_once() -> None:
    unknown = Version(known=False)
    assert linearizable([got(0, 1, b"x", 5), got(2, 3, b"x", 5)], unknown)
    assert not linearizable([got(0, 1, b"x", 5), got(2, 3, b"y", 6)], unknown)
    assert not linearizable([got(0, 1, None), got(2, 3, b"y", 6)], unknown)


def test_a_long_history_takes_no_long_search() -> None:
    """Ten concurrent writers, all answered: the search must not try their orders one by one."""
    calls = []
    for n in range(2000):
        calls.append(put(n, n + 10.5, b"%d" % n, seqno=n + 1, cas=n + 1))
        calls.append(got(n + 0.2, n + 10.7, b"%d" % n, n + 1))
    search = Search(calls, step)
    assert search.linearizable([ABSENT])
    broken = [*calls, got(3000, 3001, b"17", 18)]
    search = Search(broken, step)
    assert not search.linearizable([ABSENT])
    assert search.culprit == broken[-1]


def brute_force(calls: Sequence[Call], initial: Version) -> bool:
    """Every order of every set of calls that has all answered ones."""
    answered = [call for call in calls if call.end != UNANSWERED]
    unanswered = [call for call in calls if call.end == UNANSWERED]
    return any(
        explains(order, initial)
        for count in range(len(unanswered) + 1)
        for some in combinations(unanswered, count)
        for order in permutations([*answered, *some])
    )


def explains(order: Sequence[Call], initial: Version) -> bool:
    state: Version | None = initial
    for at, call in enumerate(order):
        if any(later.end < call.begin for later in order[at + 1 :]):
            return False
        state = step(state, call)
        if state is None:
            return False
    return True


def small_history(draw: random.Random) -> list[Call]:
    calls = []
    for _ in range(draw.randint(1, 4)):
        kind = draw.choice(["get", "set", "add", "replace", "delete", "append", "incr"])
        begin = draw.randint(0, 8)
        outcome = draw.choice(["ok", "ok", "ok", "missing", "exists", "unknown"])
        if outcome == "exists" and kind in ("get", "incr", "append"):
            outcome = "ok"
        if outcome == "missing" and kind in ("add", "incr"):
            outcome = "ok"
        end = UNANSWERED if outcome == "unknown" else begin + draw.randint(1, 5)
        numbered = outcome == "ok" and kind != "get"
        calls.append(
            Call(
                kind, begin, end, outcome,
                argument=draw.choice([b"1", b"2"]),
                expected_cas=draw.choice([0, 0, 1, 2]) if kind in ("set", "delete") else 0,
                value=draw.choice([b"0", b"1", b"2", b"11", b"12"]),
                cas=draw.choice([1, 2]) if outcome == "ok" else 0,
                seqno=draw.choice([0, 1, 2, 3]) if numbered else 0,
            )
        )  # fmt: skip
    return calls


@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    st.integers(0, 1 << 40),
    st.sampled_from([ABSENT, Version(b"1", 1, 1), Version(known=False)]),
)
def test_any_small_history_is_judged_as_by_trying_every_order(seed: int, initial: Version) -> None:
    calls = small_history(random.Random(seed))
    assert linearizable(calls, initial) is brute_force(calls, initial), calls
