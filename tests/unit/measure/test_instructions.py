"""Counting instructions: what the tools print, and the arithmetic between."""

from __future__ import annotations

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.instructions import (
    BLIND,
    ThreadCount,
    difference,
    parse_callgrind,
    parse_perf,
)

CALLGRIND = """\
/w/c:d/out-01:thread: 1
/w/c:d/out-01:totals: 26973732
/w/c:d/out-05:thread: 5
/w/c:d/out-05:runRequests
/w/c:d/out-05:runRequests
/w/c:d/out-05:totals: 123798746
"""


def test_threads_of_callgrind() -> None:
    assert parse_callgrind(CALLGRIND) == [
        ThreadCount(1, 26973732, front_end=False),
        ThreadCount(5, 123798746, front_end=True),
    ]


@pytest.mark.parametrize("text", ["", "/w/out-01:thread: 1\n", "/w/out-01:totals: 7\n"])
def test_callgrind_that_left_nothing(text: str) -> None:
    with pytest.raises(TrialError, match="wrote no counts"):
        parse_callgrind(text)


def test_the_count_of_perf() -> None:
    assert parse_perf("\n# started on Sun\n\n1234567,,instructions:u,99,100.00,,\n") == 1234567


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<not supported>,,instructions:u,0,100.00,,", "could not count .* <not supported>"),
        ("<not counted>,,instructions:u,0,0.00,,", "could not count .* <not counted>"),
        ("500,,instructions:u,5,50.00,,", "only 50.00 % of the time"),
        ("Error: no permission", "counted no instructions: Error: no permission"),
        ("", "counted no instructions"),
    ],
)
def test_perf_that_did_not_count(text: str, message: str) -> None:
    with pytest.raises(TrialError, match=message):
        parse_perf(text)


def threads(front_end: int, background: int) -> list[ThreadCount]:
    return [ThreadCount(1, background, front_end=False), ThreadCount(5, front_end, front_end=True)]


def test_what_both_runs_have_cancels() -> None:
    start = 30_000_000
    count = difference(threads(500_000, start), threads(900_000, start + 1000), 200)
    assert count.front_end_per_op == 2000.0
    assert count.per_op == 2005.0
    assert count.method == "callgrind"
    assert count.blind_to == BLIND["callgrind"]


def test_several_front_end_threads_are_added() -> None:
    less = [*threads(500, 10), ThreadCount(6, 400, front_end=True)]
    more = [*threads(900, 10), ThreadCount(6, 1000, front_end=True)]
    assert difference(less, more, 10).front_end_per_op == 100.0


@pytest.mark.parametrize(
    ("less", "more", "message"),
    [
        (threads(900, 0), threads(500, 0), "inconsistent counts"),
        (threads(500, 900), threads(900, 500), "inconsistent counts"),
        ([ThreadCount(1, 5, front_end=False)], [], "no front-end thread"),
    ],
)
def test_counts_that_cannot_be(
    less: list[ThreadCount], more: list[ThreadCount], message: str
) -> None:
    with pytest.raises(TrialError, match=message):
        difference(less, more, 10)
