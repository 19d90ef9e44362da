"""What the verifier makes of recorded runs, good and bad; the engine plays no part."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.dcp_client import MUTATION, Message
from tests.support.history.clients import KEYS, VBUCKETS, vbucket_of
from tests.support.history.record import Entry, Recorder, Reign, Start
from tests.support.history.register import UNANSWERED, Call
from tests.support.history.verify import HistoryError, Verifier, Versions, uuid_of

KEY = KEYS[0]
VB = vbucket_of(KEY)


def reign(
    number: int, *, cut: int = 0, high: int | None = None, uuid: int = 0, **more: Any
) -> Reign:
    start = Start(uuid or 100 + number, cut, cut if high is None else high)
    facts = {"node": number % 2, "cause": "test", "loses": True, **more}
    return Reign(number, port=1, starts=dict.fromkeys(range(VBUCKETS), start), **facts)


def recorded(*reigns: Reign) -> Recorder:
    return Recorder(reigns=list(reigns))


def put(
    to: Recorder, number: int, begin: float, value: bytes, seqno: int, *, outcome: str = "ok"
) -> None:
    call = Call("set", begin, begin + 1, outcome, argument=value, cas=seqno + 1000, seqno=seqno)
    if outcome == "unknown":
        call = Call("set", begin, UNANSWERED, argument=value)
    add(to, number, call, 100 + number if seqno else 0)


def get(to: Recorder, number: int, begin: float, value: bytes | None, seqno: int = 0) -> None:
    if value is None:
        add(to, number, Call("get", begin, begin + 1, "missing"))
    else:
        add(to, number, Call("get", begin, begin + 1, "ok", value=value, cas=seqno + 1000))


def add(to: Recorder, number: int, call: Call, uuid: int = 0) -> None:
    entry = Entry(KEY, VB, number, call, uuid)
    to.end(to.begin(entry), entry)


def test_what_a_failover_keeps_is_read_after_it() -> None:
    history = recorded(reign(0), reign(1, cut=1))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 2)  # lost: the next history begins at 1
    get(history, 1, 10, b"a", 1)
    put(history, 1, 12, b"c", 2)
    get(history, 1, 14, b"c", 2)
    Verifier(history).check_current()


@pytest.mark.parametrize("value", [b"b", None, b"z"])
def test_what_a_failover_loses_is_not_read_after_it(value: bytes | None) -> None:
    history = recorded(reign(0), reign(1, cut=1))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 2)
    get(history, 1, 10, value, 2)
    with pytest.raises(HistoryError, match="not linearizable"):
        Verifier(history).check_current()


@pytest.mark.parametrize("value", [b"a", b"b"])
def test_a_write_without_an_answer_may_have_survived_or_not(value: bytes) -> None:
    history = recorded(reign(0), reign(1, cut=2))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 0, outcome="unknown")
    get(history, 1, 10, value, 1)
    get(history, 1, 12, value, 1)
    Verifier(history).check_current()
    get(history, 1, 14, b"a" if value == b"b" else b"b", 1)
    with pytest.raises(HistoryError, match="not linearizable"):
        Verifier(history).check_current()


def test_a_promotion_in_mid_snapshot_may_keep_a_part_of_it() -> None:
    for seqno, value in ((1, b"a"), (2, b"b")):
        history = recorded(reign(0), reign(1, cut=1, high=3))
        put(history, 0, 0, b"a", 1)
        put(history, 0, 2, b"b", 2)
        get(history, 1, 10, value, seqno)
        Verifier(history).check_current()


def test_what_the_replica_had_is_not_lost_by_its_promotion() -> None:
    history = recorded(reign(0), reign(1, cut=1, high=3))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 2)
    history.replicated[1] = [(KEY, 1002)]
    get(history, 1, 10, b"a", 1)
    with pytest.raises(HistoryError, match="not linearizable"):
        Verifier(history).check_current()


def test_what_was_reported_persisted_survives_a_restart() -> None:
    history = recorded(reign(0, node=0), reign(1, cut=4, node=0))
    history.saw_persisted(0, VB, 5)
    with pytest.raises(HistoryError, match="5 had been reported as persisted"):
        Verifier(history).check_current()


def test_a_lost_disk_leaves_nothing() -> None:
    history = recorded(reign(0, node=0), reign(1, node=0, empty=True))
    put(history, 0, 0, b"a", 5)
    history.saw_persisted(0, VB, 5)
    get(history, 1, 10, None)
    Verifier(history).check_current()
    get(history, 1, 12, b"a", 5)
    with pytest.raises(HistoryError, match="not linearizable"):
        Verifier(history).check_current()


def test_a_planned_switch_loses_nothing() -> None:
    history = recorded(reign(0), reign(1, cut=1, loses=False))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 2)
    with pytest.raises(HistoryError, match="the next history begins at 1"):
        Verifier(history).check_current()


def test_a_demoted_node_answers_no_more() -> None:
    history = recorded(reign(0), reign(1, cut=1, loses=False))
    history.closed[0] = 5.0
    put(history, 0, 0, b"a", 1)
    get(history, 0, 6, b"a", 1)
    with pytest.raises(HistoryError, match="after its node was demoted"):
        Verifier(history).check_current()


def test_a_history_is_not_kept_over_a_loss() -> None:
    history = recorded(reign(0), reign(1, uuid=100))
    with pytest.raises(HistoryError, match="keeps the history"):
        Verifier(history).check_current()


def test_an_answer_names_the_history_of_its_reign() -> None:
    history = recorded(reign(0, uuid=7))
    put(history, 0, 0, b"a", 1)  # of 100
    with pytest.raises(HistoryError, match="in the history 64, not 7"):
        Verifier(history).check_current()


def test_operations_under_way_may_have_happened() -> None:
    history = recorded(reign(0))
    history.begin(Entry(KEY, VB, 0, Call("set", 0.0, argument=b"a")))
    get(history, 0, 5, b"a", 1)
    Verifier(history).check_current()


def test_a_place_in_a_history_has_one_version() -> None:
    versions = Versions()
    versions.add((0, 1, 5), b"k", 9, None, "an answer")
    versions.add((0, 1, 5), b"k", 9, b"v", "node 0")
    versions.add((0, 2, 5), b"other", 3, b"v", "node 0")  # in another history
    for key, cas, value in ((b"k", 9, b"w"), (b"k", 8, b"v"), (b"l", 9, b"v")):
        with pytest.raises(HistoryError, match="names two versions"):
            versions.add((0, 1, 5), key, cas, value, "node 1")


def test_a_message_belongs_to_the_history_that_its_seqno_is_in() -> None:
    log = [(30, 9), (20, 4), (10, 0)]
    assert [uuid_of(log, seqno) for seqno in (1, 4, 5, 9, 10)] == [10, 10, 20, 20, 30]
    versions = Versions()
    message = Message(MUTATION, 0, 1, 77, struct.pack(">Q", 5) + bytes(23), b"k", b"v", 60)
    versions.add_messages([message], [log], "a stream")
    with pytest.raises(HistoryError, match="uuid 14, seqno 5"):
        versions.add((0, 20, 5), b"k", 78, b"v", "an answer")


def test_a_snapshot_ends_with_the_state_of_its_seqno() -> None:
    history = recorded(reign(0))
    put(history, 0, 0, b"a", 1)
    put(history, 0, 2, b"b", 2)
    entries = history.entries(0)
    verifier = Verifier(history)
    verifier.check_boundaries(entries, [(VB, 1, {KEY: 1}), (VB, 2, {KEY: 2})])
    verifier.check_boundaries(entries, [(VB, 3, {KEY: 3})])  # a write without an answer
    for held in ({KEY: 1}, {}):
        with pytest.raises(HistoryError, match="at the end of the snapshot 2"):
            verifier.check_boundaries(entries, [(VB, 2, held)])
