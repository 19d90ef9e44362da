from __future__ import annotations

import pytest

from perfrunner.measure.client import cross_check

ZERO = {"cmd_get": 0.0, "cmd_set": 0.0}


@pytest.mark.parametrize(
    ("server", "in_flight", "agrees"),
    [
        (1000, 0, True),
        (1001, 0, True),
        (1002, 0, False),
        (1100, 100, True),
        (899, 100, False),
        (0, 0, False),
    ],
)
def test_a_difference_beyond_what_was_in_flight_is_a_mismatch(
    server: int, in_flight: int, agrees: bool
) -> None:
    check = cross_check(1000, ZERO, {"cmd_get": server / 4, "cmd_set": server * 3 / 4}, in_flight)
    assert check is not None
    assert check.agrees is agrees


def test_what_was_counted_before_does_not_count() -> None:
    before = {"cmd_get": 50.0, "cmd_set": 7.0}
    check = cross_check(10, before, {"cmd_get": 55.0, "cmd_set": 12.0}, 0)
    assert check is not None
    assert (check.client, check.server) == (10, 10)
    assert "the server 10" in str(check)


def test_a_server_without_counters_is_not_judged() -> None:
    assert cross_check(10, {}, ZERO, 0) is None
