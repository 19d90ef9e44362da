"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.spec.units import (
    parse_count,
    parse_duration,
    parse_percent,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("250ms", 0.25),
        ("10m", 600),
        ("1.5min", 90),
        ("2h", 7200),
        ("1d", 86400),
        (7, 7),
        ("3 s", 3),
    ],
)
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["5", "5x", "", "-5s", -1, True, None, [5], "s", float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration such as 5s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (256, 256),
        ("256", 256),
        ("1KiB", 1024),
        ("1k", 1000),
        ("1kB", 1000),
        ("2MiB", 2 << 20),
        ("1.5k", 1500),
        ("1G", 10**9),
    ],
)
def test_k_is_1000_and_ki_is_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["1.5", "1 apple", -3, 0.5, True, "1kb", None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="a size in bytes"):
        parse_size(text)


def test_counts_take_k_and_m():
    assert (parse_count("100k"), parse_count("5M"), parse_count(3.0)) == (100_000, 5_000_000, 3)
    with pytest.raises(ValueError, match="whole number"):
        parse_count("5MB")


def test_shares_are_parts_of_one():
    assert parse_share("1%") == pytest.approx(0.01)
    assert parse_share(0.25) == 0.25
    for wrong in ("101%", 5, "-1%", "1", True):
        with pytest.raises(ValueError, match="a percentage"):
            parse_share(wrong)


def test_percents_are_of_a_hundred():
    assert (parse_percent(80), parse_percent("80%")) == (80, 80)
    for wrong in (101, "101%", -1, "80", True):
        with pytest.raises(ValueError, match="from 0 to 100"):
            parse_percent(wrong)


@given(st.floats(min_value=0, max_value=1e9, allow_nan=False))
def test_a_parsed_duration_parses_to_itself(seconds):
    assert parse_duration(seconds) == seconds


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["", "k", "M", "Ki", "Mi"]))
def test_counts_scale_exactly(number, unit):
    factor = {"": 1, "k": 1000, "M": 10**6, "Ki": 1024, "Mi": 1 << 20}[unit]
    assert parse_count(f"{number}{unit}") == number * factor
