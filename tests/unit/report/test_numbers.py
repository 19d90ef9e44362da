"""How numbers are written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.analysis.model import Effect, Summary
from perfrunner.report.numbers import (
    change,
    factor_label,
    factor_steps,
    mean_text,
    p_text,
    percent_change,
    scale_of,
    significant,
    spread,
)
from perfrunner.spec.metrics import metric_type

ASCII = str.maketrans("\N{MINUS SIGN}\N{MULTIPLICATION SIGN}\N{DIVISION SIGN}", "-x/")
OPS, FRAG = metric_type("ops_per_s"), metric_type("fragmentation_rss")


def ratio(estimate, low, high):
    return Effect("ratio", "a", 10, estimate, (low, high), 0.01, 3.0, 0.01, 0.01, 0.01, q=0.02)


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("ops_per_s", 1_831_406.0, "1.831M ops/s"),
        ("ops_per_s", 999.0, "999.0 ops/s"),
        ("ops_per_s", 88_400.0, "88.40k ops/s"),
        ("rss_bytes", 395_200_000.0, "395.2 MB"),
        ("rss_bytes", 0.0, "0 B"),
        ("latency_get_p99_us", 412.2, "412.2 µs"),
        ("latency_get_p99_us", 41_220.0, "41.22 ms"),
        ("CheckpointBench/GetCursorsToDrop/10000", 2_545_368.0, "2545 µs"),
        ("CheckpointBench/GetCursorsToDrop/10", 12.7, "12.70 ns"),
        ("fragmentation_rss", -3.25, "\N{MINUS SIGN}3.250 %"),
        ("FlushVBucket/insert/10000/PeakBytesPerItem", 738.0, "738.0 B/item"),
    ],
)
def test_a_value_with_its_unit(metric, value, text):
    assert scale_of(metric_type(metric), value).text(value) == text


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (ratio(1.011, 1.006, 1.016), "+1.1 % [+0.6, +1.6]"),
        (ratio(0.991, 0.985, 0.997), "-0.9 % [-1.5, -0.3]"),
        (ratio(1.0003, 0.9996, 1.0010), "+0.03 % [-0.04, +0.10]"),
        (ratio(0.005, 0.0049, 0.0051), "/200 [196, 204]"),
        (ratio(1 / 200_197, 1 / 210_000, 1 / 190_000), "/200,000 [190,000, 210,000]"),
        (ratio(0.6, 0.3, 1.2), "x0.600 [0.300, 1.20]"),
        (ratio(1.0, 2.0e-39, 5.2e38), "x1.00 [2e-39, 5e+38]"),
        (ratio(2.13, 2.1, 2.16), "x2.13 [2.10, 2.16]"),
        (ratio(1.0, 1.0, 1.0), "+0 % [exact]"),
        (ratio(1 / 36_233, 1 / 40_304, 1 / 32_573), "/36,200 [32,600, 40,300]"),
        (ratio(0.778381, 0.778380, 0.778382), "-22.16 % [exact]"),
        (ratio(0.749, 0.748997, 0.749003), "-25.10 % [exact]"),
        (ratio(0.74858, 0.74856, 0.74860), "-25.14 % [exact]"),
        (ratio(1.12131, 1.12124, 1.12138), "+12.13 % [+12.12, +12.14]"),
        (ratio(1.00012, 1.00009, 1.00015), "+0.012 % [+0.009, +0.015]"),
        (ratio(1.007, 0.9998, 1.0145), "+0.70 % [-0.02, +1.45]"),  # includes no change
        (ratio(1.007, 1.0002, 1.0145), "+0.70 % [+0.02, +1.45]"),
        (ratio(1.2, 1.004, 1.43), "+20.0 % [+0.4, +43.0]"),
        (ratio(1.3, 0.9984, 1.7), "x1.30 [0.998, 1.70]"),
        (ratio(1.3, 1.0016, 1.7), "x1.300 [1.002, 1.700]"),
        (ratio(1 / 1.80312, 1 / 1.80315, 1 / 1.80309), "/1.803 [exact]"),
        (ratio(1 / 3.2581, 1 / 3.2622, 1 / 3.2551), "/3.258 [3.255, 3.262]"),
    ],
)
def test_a_change_shows_the_width_of_its_interval(effect, text):
    written = change(effect, OPS, scale_of(OPS, 1e6))
    assert written.translate(ASCII) == text


def test_a_change_without_an_interval_that_rounds_to_zero_has_no_sign_of_a_loss():
    effect = Effect("ratio", "a", 1, 0.999999, None, None, None, None, None, 0.01)
    assert change(effect, OPS, scale_of(OPS, 1e6)) == "+0.00 %"
    assert percent_change(0.9999) == "+0.0 %"
    assert percent_change(0.99).translate(ASCII) == "-1.0 %"


def test_a_difference_is_in_points_or_in_the_scaled_unit():
    effect = Effect("difference", "a", 8, 3.3, (3.0, 3.6), 0.0, 9.0, 0.3, 0.01, 1.0, q=0.0)
    assert change(effect, FRAG, scale_of(FRAG, 20.0)) == "+3.3 pt [+3.0, +3.6]"
    exact = Effect("difference", "a", 8, -48.0, (-48.0, -48.0), 0.0, None, 0.0, 0.0, 0.0, q=0.0)
    assert change(exact, FRAG, scale_of(FRAG, 20.0)).translate(ASCII) == "-48 pt [exact]"
    huge = metric_type("anon_huge_bytes")
    effect = Effect("difference", "a", 8, 1.05e7, (1.0e7, 1.1e7), 0.0, 9.0, 0.3, 0.01, 2e6, q=0.0)
    assert change(effect, huge, scale_of(huge, 1e7)) == "+10.5 MB [+10.0, +11.0]"


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (57.4312, 0.0712, "57.43 % ± 0.07"),
        (45.9974, 0.1164, "46.00 % ± 0.12"),
        (63.4821, 3.87, "63.5 % ± 3.9"),
        (45.0, 0.0004, "45.00 % ± 0.0004"),
    ],
)
def test_a_mean_and_its_interval_have_as_many_places(mean, half, text):
    summary = Summary({1: mean}, mean, 1.0, 0.1, mean, mean, (mean - half, mean + half))
    scale = scale_of(FRAG, mean)
    assert f"{mean_text(summary, scale)} {spread(summary, FRAG, scale)}" == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "q<.001"), (0.0031, "q=.003"), (0.06, "q=.060"), (1.0, "q=1"), (None, "q=?")],
)
def test_p_values(value, text):
    assert p_text("q", value) == text


@given(st.floats(1e-6, 1e12), st.integers(2, 5))
def test_significant_digits_keep_the_value(value, digits):
    text = significant(value, digits)
    assert re.fullmatch(r"\d+(\.\d+)?", text)
    assert float(text) == pytest.approx(value, rel=0.6 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.54, 1.05, "/1.5 /1.2 x1"),
        (0.02, 25.0, "/10 x1 x10"),
        (0.00002, 2.1, "/10,000 /1,000 /100 /10 x1"),
        (0.9, 2.6, "x1 x1.2 x1.5 x2"),
        (1e-9, 1e2, "/100,000,000 /1,000,000 /10,000 /100 x1 x100"),
    ],
)
def test_an_axis_of_factors_has_several_labels_and_always_that_of_no_change(low, high, labels):
    assert " ".join(map(factor_label, factor_steps(low, high))).translate(ASCII) == labels


def test_a_span_has_the_prefix_of_its_scale_at_both_ends():
    """`71.78 … 110.1` next to a mean of 88k ops/s was read as operations."""
    thousands = scale_of(metric_type("ops_per_s"), 88_000)
    assert thousands.span(71_780, 110_100) == "71.78k … 110.1k"
    assert scale_of(metric_type("rss_bytes"), 2.5e9).span(2.4e9, 2.6e9) == "2.400 … 2.600"
    assert scale_of(metric_type("latency_get_p50_us"), 189).span(164.6, 216.7) == "164.6 … 216.7"
