from __future__ import annotations

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.client import Second
from perfrunner.measure.slices import steady_window


def seconds(*ops: int) -> list[Second]:
    return [Second(float(i), n, 1.0) for i, n in enumerate(ops, 1)]


def test_the_ramp_and_a_partial_last_second_do_not_count() -> None:
    series = [*seconds(10, 100, 110, 90), Second(4.4, 1, 0.4)]
    window = steady_window(series, 1.0)
    assert window.seconds == 3
    assert window.mean == 100


def test_the_mean_is_of_rates_so_a_long_second_does_not_inflate_it() -> None:
    window = steady_window([Second(1.0, 100, 1.0), Second(2.1, 110, 1.1)], 0.0)
    assert window.mean == pytest.approx(100)


def test_p90_is_reported_next_to_the_mean() -> None:
    assert steady_window(seconds(*range(0, 101, 10)), 0.0).p90 == 90


def test_a_timer_that_is_late_does_not_cost_the_second_after_the_ramp() -> None:
    series = [Second(1.002, 5, 1.002), Second(2.002, 100, 1.0), Second(3.002, 100, 1.0)]
    assert steady_window(series, 1.0).seconds == 2


def test_a_second_that_begins_inside_the_ramp_is_left_out() -> None:
    assert steady_window(seconds(1, 1, 100), 1.5).mean == 100


def test_nothing_left_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(TrialError, match="no whole second of 1 is left") as caught:
        steady_window(seconds(100), 1.0)
    assert caught.value.hint is not None
    assert "duration" in caught.value.hint


def test_a_drift_over_the_window_is_noted() -> None:
    falling = steady_window(seconds(120, 110, 100, 90, 80), 0.0)
    assert falling.slope == pytest.approx(-0.4)
    assert falling.drifts
    flat = steady_window(seconds(100, 101, 100, 99, 100), 0.0)
    assert not flat.drifts


def test_few_seconds_say_nothing_about_a_drift() -> None:
    assert steady_window(seconds(100, 50), 0.0).slope is None
