"""Metrics of variants whose load is interleaved: throughput, and the parts of the time per operation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.slices import GroupLoad
from perfrunner.workloads import pillowfight
from perfrunner.workloads.metrics import driven_interleaved
from tests.support.recording import COST, PILLOWFIGHT, RecordingBench, RecordingGroup, group_load


def test_throughput_side_by_side_is_robust_and_has_its_totals_next_to_it() -> None:
    bench = RecordingGroup(RecordingBench(), RecordingBench(), loaded=group_load([100, 50]))
    base, other = pillowfight.run(bench, PILLOWFIGHT)
    assert base.metrics["ops_per_s"] == pytest.approx(100)
    assert other.metrics["ops_per_s"] == pytest.approx(50)
    assert other.metrics["ops_per_s_total"] == pytest.approx(50 * 40 / 49)
    assert (base.metrics["slow_slices"], other.metrics["slow_slices"]) == (0, 2.5)
    assert base.metrics["server_cpu_us_per_op"] == pytest.approx(2.0)
    assert base.metrics["client_cpu_us_per_op"] == pytest.approx(0.5)
    assert base.check is not None
    assert (base.check.client, base.check.server) == (4030, 4030)
    assert base.report is not None
    assert base.report.prepare is not None
    assert base.report.prepare.misses == 2, "the warm-up's misses count"
    assert base.facts == {
        "slice": 0.002,
        "rounds": 40,
        "warmup_rounds": 3,
        "round_seed": 5,
        "load_s": 40.0,  # in turn, and measured
        "latency_ops": {"get": 100, "set": 100},
    }


def limited_load(*answered: int) -> GroupLoad:
    """Slices of 2 ms; each variant answers 10 operations in the first `answered` of its 50 slices."""
    loaded = group_load([100] * len(answered), rounds=50)
    variants = tuple(
        replace(
            variant,
            slices=replace(
                variant.slices,
                wall_ns=np.full(50, 2_000_000),
                ops=np.where(np.arange(50) < count, 10, 0),
            ),
        )
        for variant, count in zip(loaded.variants, answered, strict=True)
    )
    return replace(loaded, variants=variants)


def test_with_a_rate_limit_throughput_is_that_of_all_slices_as_most_are_empty() -> None:
    spec = PILLOWFIGHT.model_copy(update={"rate_limit": 1000})
    bench = RecordingGroup(RecordingBench(), RecordingBench(), loaded=limited_load(10, 5))
    base, other = pillowfight.run(bench, spec)
    assert base.metrics["ops_per_s"] == pytest.approx(1000)
    assert other.metrics["ops_per_s"] == other.metrics["ops_per_s_total"] == pytest.approx(500)
    assert not {"slow_slices", "ops_per_s_p90"} & set(base.metrics)
    assert not spec.may_give("slow_slices")


def test_a_variant_that_answers_nothing_has_no_throughput() -> None:
    with pytest.raises(TrialError, match="variant 2 answered nothing in 50 rounds"):
        driven_interleaved(limited_load(10, 0), 0, limited=True)


def with_clocks(results: GroupLoad, *, idle_cpu_ns: int | None = None) -> GroupLoad:
    """Every slice uses 150 of its server's 200 µs; 30 µs of others; the load lasts 100 s."""
    variants = tuple(
        replace(
            variant,
            idle_cpu_ns=idle_cpu_ns,
            slices=replace(
                variant.slices,
                own_cpu_ns=np.full(len(variant.slices.ops), 150_000),
                foreign_cpu_ns=np.full(len(variant.slices.ops), 30_000),
            ),
        )
        for variant in results.variants
    )
    return replace(results, variants=variants, seconds=100.0, idle_s=0.2)


def test_the_parts_of_the_time_per_operation_add_up() -> None:
    base, _ = driven_interleaved(with_clocks(group_load([100, 50])), 0)
    metrics = base.metrics
    assert metrics["own_cpu_us_per_op"] == pytest.approx(1.5)
    assert metrics["foreign_cpu_us_per_op"] == pytest.approx(0.3)
    parts = (
        "own_cpu_us_per_op",
        "foreign_cpu_us_per_op",
        "client_cpu_us_per_op",
        "waiting_us_per_op",
    )
    time = COST.threads * 1e6 / metrics["ops_per_s_total"]
    assert sum(metrics[name] for name in parts) == pytest.approx(time)


def test_background_work_is_charged_to_whose_load_caused_it() -> None:
    base, _ = driven_interleaved(with_clocks(group_load([100, 50])), 0)
    assert base.metrics["background_cpu_us_per_op"] == pytest.approx(0.5)
    assert base.metrics["total_cpu_us_per_op"] == pytest.approx(2.0)
    assert base.metrics["background_cpu_ms_per_s"] == pytest.approx(2.0 / (100 - 40))
    assert "idle_cpu_ms_per_s" not in base.metrics, "not measured before the load: not 0"


def test_work_that_is_done_without_load_is_charged_once() -> None:
    """The load caused 0.5 of the 2 ms outside the slices: 1.5 ms would have been used without any."""
    idle = with_clocks(group_load([100, 50]), idle_cpu_ns=5_000)
    base, _ = driven_interleaved(idle, 0)
    assert base.metrics["idle_cpu_ms_per_s"] == pytest.approx(0.025)
    assert base.metrics["background_cpu_us_per_op"] == pytest.approx(0.5 * 0.25)
    assert base.metrics["total_cpu_us_per_op"] == pytest.approx(1.5 + 0.5 * 0.25)
    busy, _ = driven_interleaved(with_clocks(group_load([100, 50]), idle_cpu_ns=10**9), 0)
    assert busy.metrics["total_cpu_us_per_op"] == pytest.approx(1.5), (
        "never less than in its slices"
    )


def test_without_all_clocks_there_are_no_parts() -> None:
    base, _ = driven_interleaved(group_load([100, 50]), 0)
    assert "total_cpu_us_per_op" not in base.metrics
