"""The report of a Google Benchmark program becomes metrics under the historic names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from perfrunner.errors import TrialError
from perfrunner.measure.microbench import parse_microbench
from perfrunner.spec.metrics import metric_type


def row(name: str, real: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": 1,
        "iterations": 10,
        "real_time": real,
        "cpu_time": real / 2,
        "time_unit": "ns",
        **more,
    }


def report(*rows: dict[str, Any]) -> str:
    return json.dumps({"context": {"build.cursor_drop": "walk"}, "benchmarks": list(rows)})


def test_times_are_nanoseconds_and_names_lose_their_bookkeeping() -> None:
    text = report(
        row("CheckpointBench/GetCursorsToDrop/10/iterations:500/repeats:1", 2.0),
        row("HTB/Insert/sized/iterations:100000/real_time/threads:2", 0.5, time_unit="us"),
    )
    metrics = parse_microbench(text, "x").metrics((), ())
    assert metrics == {
        "CheckpointBench/GetCursorsToDrop/10": 2.0,
        "CheckpointBench/GetCursorsToDrop/10/cpu_time": 1.0,
        "HTB/Insert/sized/threads:2": 500.0,
        "HTB/Insert/sized/threads:2/cpu_time": 250.0,
    }
    assert all(metric_type(name).unit == "ns" for name in metrics)


def test_the_context_says_what_was_built() -> None:
    assert parse_microbench(report(row("HTB/Find/sized", 1.0)), "x").context == {
        "build.cursor_drop": "walk"
    }


def test_with_repetitions_the_median_counts() -> None:
    repeated = {"repetitions": 3}
    text = report(
        *(row("HTB/Find/sized", t, **repeated) for t in (1.0, 2.0, 9.0)),
        row("HTB/Find/sized", 4.0, run_type="aggregate", aggregate_name="mean", **repeated),
        row("HTB/Find/sized", 2.0, run_type="aggregate", aggregate_name="median", **repeated),
    )
    assert parse_microbench(text, "x").metrics((), ())["HTB/Find/sized"] == 2.0


def test_counters_become_metrics_and_a_missing_one_is_an_error() -> None:
    parsed = parse_microbench(
        report(row("FlushVBucket/insert/100", 1.0, PeakBytesPerItem=738.0)), "x"
    )
    metrics = parsed.metrics(("PeakBytesPerItem",), ())
    assert metrics["FlushVBucket/insert/100/PeakBytesPerItem"] == 738.0
    assert metric_type("FlushVBucket/insert/100/PeakBytesPerItem").unit == "B/item"
    with pytest.raises(TrialError, match="PeakBytesPerItm"):
        parsed.metrics(("PeakBytesPerItm",), ())


@pytest.mark.parametrize(("exponent"), [0.0, 1.0, 2.0])
def test_growth_is_the_fitted_exponent(exponent: float) -> None:
    family = "CheckpointBench/GetCursorsToDrop"
    text = report(
        *(row(f"{family}/{n}", 7.0 * n**exponent) for n in (1, 10, 100, 1000)),
        row(f"{family}/9/cursors:1", 1e9),
    )
    assert parse_microbench(text, "x").growth(family) == pytest.approx(exponent)


def test_growth_is_scipys_regression() -> None:
    sizes, times = [1, 7, 50, 400], [3.0, 40.0, 180.0, 2100.0]
    text = report(*(row(f"F/{n}", time) for n, time in zip(sizes, times, strict=True)))
    slope = stats.linregress(np.log(sizes), np.log(times)).slope
    assert parse_microbench(text, "x").growth("F") == pytest.approx(slope)


def test_growth_needs_three_sizes() -> None:
    text = report(
        row("CheckpointBench/GetCursorsToDrop/1", 1.0),
        row("CheckpointBench/GetCursorsToDrop/2", 1.0),
    )
    with pytest.raises(TrialError, match="at least 3 sizes"):
        parse_microbench(text, "x").growth("CheckpointBench/GetCursorsToDrop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "not a Google Benchmark report"),
        ('{"context": {}}', "not a Google Benchmark report"),
        (report(), "holds no benchmark"),
        (
            report(
                row(
                    "HTB/Insert/sized",
                    1.0,
                    error_occurred=True,
                    error_message="an insert found its key",
                )
            ),
            "an insert found",
        ),
    ],
)
def test_a_bad_report_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(TrialError, match=message):
        parse_microbench(text, "bench.json")


def test_what_is_timed_by_hand_has_no_cpu_time() -> None:
    text = report(row("CheckpointBench/Extract/10/iterations:500/manual_time", 8.0))
    assert parse_microbench(text, "x").metrics((), ()) == {"CheckpointBench/Extract/10": 8.0}
