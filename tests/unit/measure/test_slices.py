"""A conductor's document becomes one report an arm, each arm compared with the baseline of its own rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.slices import SlicesReport, parse_slices


def slices(real: list[float], *, by_hand: bool = False, **counters: list[float]) -> dict[str, Any]:
    rounds = len(real)
    return {
        "iterations": [10] * rounds,
        "real_ns": real,
        "cpu_ns": None if by_hand else [ns / 2 for ns in real],
        "wall_ns": [ns + 5 for ns in real],
        "setup_ns": [5.0] + [0.0] * (rounds - 1),
        "counters": counters,
        "position": [0] * rounds,
    }


def benchmark(name: str, *arms: dict[str, Any], **more: Any) -> dict[str, Any]:
    rounds = len(arms[0]["real_ns"])
    return {"name": name, "full": name, "pass": None, "warm_up": 2, "rounds": rounds} | {
        "arms": list(arms),
        **more,
    }


def document(*benchmarks: dict[str, Any], **more: Any) -> str:
    arms = [
        {
            "name": name,
            "pid": 7,
            "cpus": [0, 1],
            "context": {"build.ht_stats": name},
            "report": None,
            "stderr": "",
        }
        for name in ("single", "core")
    ]
    whole = {
        "tool": "conductor",
        "schema": 1,
        "failure": None,
        "failed_arm": None,
        "plan": {},
        "arms": arms,
        "benchmarks": list(benchmarks),
    }
    return json.dumps(whole | more)


def parsed(*benchmarks: dict[str, Any]) -> SlicesReport:
    return parse_slices(document(*benchmarks), "x")


def test_a_report_an_arm_from_the_ratios_within_rounds() -> None:
    drifting = [1000.0, 2000.0, 4000.0]
    report = parsed(
        benchmark("HTB/Insert/sized", slices(drifting), slices([0.9 * ns for ns in drifting]))
    )
    arms = report.reports("single")
    assert arms["single"].metrics((), ()) == pytest.approx(
        {"HTB/Insert/sized": 200.0, "HTB/Insert/sized/cpu_time": 100.0}
    )
    assert arms["core"].metrics((), ()) == pytest.approx(
        {"HTB/Insert/sized": 180.0, "HTB/Insert/sized/cpu_time": 90.0}
    )
    assert arms["core"].context == {"build.ht_stats": "core"}


def test_a_rare_slow_slice_is_in_the_totals_and_not_in_the_level() -> None:
    slow = [1000.0] * 10
    slow[4] = 91_000.0
    report = parsed(benchmark("HTB/Find/sized", slices([1000.0] * 10), slices(slow)))
    assert report.reports("single")["core"].rows["HTB/Find/sized"].real_ns == pytest.approx(100)
    totals = report.totals("core")["HTB/Find/sized"]
    assert totals.real_ns == pytest.approx(1000)
    assert totals.cpu_ns == pytest.approx(500)


def test_counters_are_levels_or_means_where_there_is_no_ratio() -> None:
    report = parsed(
        benchmark(
            "CheckpointBench/QueueDirtyBesideCursorSearch/10000",
            slices([1.0, 2.0], by_hand=True, p50_us=[1.0, 2.0], rounds_beside=[0.0, 3.0]),
            slices([1.0, 2.0], by_hand=True, p50_us=[2.0, 4.0], rounds_beside=[1.0, 1.0]),
        )
    )
    rows = {name: next(iter(own.rows.values())) for name, own in report.reports("single").items()}
    assert rows["core"].counters == pytest.approx({"p50_us": 2 * 2**0.5, "rounds_beside": 1.0})
    assert rows["single"].counters == pytest.approx({"p50_us": 2**0.5, "rounds_beside": 1.5})
    assert rows["core"].cpu_ns is None
    assert report.totals("core")[rows["core"].name].cpu_ns is None


def test_growth_is_that_of_the_levels() -> None:
    family = "CheckpointBench/GetCursorsToDrop"
    report = parsed(
        *(
            benchmark(f"{family}/{n}", slices([10.0 * n] * 3), slices([10.0] * 3))
            for n in (10, 100, 1000)
        )
    )
    arms = report.reports("single")
    assert arms["single"].growth(family) == pytest.approx(1.0)
    assert arms["core"].growth(family) == pytest.approx(0.0)


def test_a_failed_arm_is_named_with_its_last_words() -> None:
    whole = json.loads(document(failure="ended with status 3", failed_arm="core"))
    whole["arms"][1] |= {"context": None, "stderr": "terminate called\nwhat(): no\n"}
    with pytest.raises(
        TrialError, match=r"core: ended with status 3: terminate called \| what\(\): no"
    ):
        parse_slices(json.dumps(whole), "x")
    whole |= {"failed_arm": None, "failure": "interrupted by signal 15"}
    with pytest.raises(TrialError, match="gave up: interrupted by signal 15"):
        parse_slices(json.dumps(whole), "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no document of a conductor"),
        ("[]", "no document of a conductor"),
        (document(schema=2), "schema 2"),
        (document(), "holds no benchmark"),
        (document(benchmark("A", slices([1.0]))), "1 of 2 arms"),
        (document(benchmark("A", slices([1.0]), slices([1.0, 2.0]))), "real_ns|iterations"),
        (document(benchmark("A", slices([1.0]), slices([float("nan")]))), "real_ns"),
        (document(benchmark("A", slices([]), slices([]))), "0 rounds"),
        (
            document(benchmark("A", slices([1.0]), slices([1.0]) | {"iterations": [0]})),
            "a slice of no iteration",
        ),
    ],
)
def test_what_is_no_document_is_refused(text: str, said: str) -> None:
    with pytest.raises(TrialError, match=said):
        parse_slices(text, "bench.json")


def test_a_time_below_the_clock_is_that_of_all_slices() -> None:
    report = parsed(
        benchmark(
            "A",
            slices([10.0, 0.0, 20.0], by_hand=True),
            slices([10.0, 10.0, 10.0], by_hand=True),
        )
    )
    arms = report.reports("single")
    assert arms["single"].rows["A"].real_ns == pytest.approx(1.0)
    assert arms["core"].rows["A"].real_ns == pytest.approx(1.0)
