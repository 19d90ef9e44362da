"""The exact order of what a scenario does, and the arguments its tools get."""

from __future__ import annotations

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.client import Histogram, Phase, Second
from perfrunner.spec.workloads import (
    WORKLOAD_TYPES,
    PillowfightSpec,
    ServerWorkload,
    ToolWorkload,
)
from perfrunner.workloads import SERVER_SCENARIOS, TOOL_SCENARIOS, append, pillowfight
from perfrunner.workloads.bench import Share
from perfrunner.workloads.metrics import counted_by_server
from tests.support.recording import (
    APPEND,
    PILLOWFIGHT,
    H,
    RecordingBench,
    RecordingGroup,
    alone,
    group_load,
)


def test_pillowfight_in_its_order() -> None:
    bench = RecordingGroup(RecordingBench())
    pillowfight.run(bench, PILLOWFIGHT)
    assert bench.log == [
        "phase populate", "load pillowfight populate",
        "phase persist", "wait-persisted", "reset", "sample before", "counters",
        "phase access", "start sampling samples", "load pillowfight client", "stop sampling",
        "sample now", "counters",
        "phase settle", "settle 2", "sample settled",
    ]  # fmt: skip


def test_pillowfight_side_by_side_populates_all_variants_at_once() -> None:
    bench = RecordingGroup(RecordingBench(), RecordingBench(), loaded=group_load([100, 50]))
    pillowfight.run(bench, PILLOWFIGHT)
    both = lambda line: [f"0: {line}", f"1: {line}"]  # noqa: E731
    assert bench.log == [
        "phase populate", "prepare pillowfight populate",
        "phase persist", "0: wait-persisted", "0: reset", "1: wait-persisted", "1: reset",
        "0: sample before", "0: counters", "1: sample before", "1: counters",
        "phase access", *both("start sampling samples"), "loaded pillowfight client", *both("stop sampling"),
        "0: sample now", "0: counters", "1: sample now", "1: counters",
        "phase settle", "settle 2", *both("sample settled"),
    ]  # fmt: skip
    assert "--slice=0.002" in bench.arguments
    assert "--populate-only" in bench.prepared


def test_what_the_server_counts_becomes_a_metric() -> None:
    before = {"injected_burnt_ns": 1e6, "injected_clock_ns": 5e9}
    after = {"injected_burnt_ns": 3e6, "injected_clock_ns": 7e9, "ep_queue_size": 12.0}
    assert counted_by_server(1000, before, after) == {
        "unpersisted_items": 12.0,
        "injected_us_per_op": 2.0,
        "injected_ms_per_s": 1.0,
    }
    assert counted_by_server(1000, {}, {}) == {}


def test_append_side_by_side_counts_its_load() -> None:
    bench = RecordingGroup(
        RecordingBench(), RecordingBench(), loaded=group_load([100, 50], loaded=10, cpu=False)
    )
    base, other = append.run(bench, APPEND)
    assert "--slice-ops=500" in bench.arguments
    for measured in (base, other):
        assert measured.check is not None
        assert (measured.check.client, measured.check.server) == (4010, 4010)
        assert measured.facts["live_bytes"] == 77
    # no clock of the process: the kernel's ticks over all operations between the two samples
    assert base.metrics["server_cpu_us_per_op"] == pytest.approx(5e-4 * 1e6 / 4010)


def test_append_in_its_order() -> None:
    bench = RecordingGroup(RecordingBench())
    append.run(bench, APPEND)
    assert bench.log == [
        "sample before", "counters",
        "phase load and update", "start sampling samples", "load append client", "stop sampling",
        "sample now", "counters",
        "phase settle", "settle 2", "sample settled",
    ]  # fmt: skip


def test_the_metrics_of_pillowfight() -> None:
    measured = alone(pillowfight, PILLOWFIGHT)
    assert measured.metrics["ops_per_s"] == 100
    assert measured.metrics["latency_get_p50_us"] == 1.0
    assert measured.metrics["latency_set_p99_us"] == 5.0
    assert measured.metrics["server_cpu_us_per_op"] == pytest.approx(5e-4 * 1e6 / 400)
    assert measured.metrics["client_cpu_us_per_op"] == pytest.approx(0.5 * 1e6 / 400)
    assert measured.metrics["fragmentation_mapped"] == pytest.approx(37.5)
    assert measured.metrics["fragmentation_rss_now"] == pytest.approx(50.0)
    assert measured.check is not None
    assert measured.check.agrees
    assert measured.facts["steady_seconds"] == 3
    assert measured.facts["load_s"] == 3.0  # the ramp is no load that counts
    assert measured.facts["latency_ops"] == {"get": 100, "set": 100}


def test_the_rate_of_a_fixed_amount_of_work_is_work_over_time_and_its_load_is_counted_too() -> None:
    measured = alone(append, APPEND)
    assert measured.metrics["ops_per_s"] == 100  # 400 requests in 4 s
    assert measured.metrics["server_cpu_us_per_op"] == pytest.approx(1.0)  # over 500 operations
    # the CPU time is that of the 400 updates, without the load
    assert measured.metrics["client_cpu_us_per_op"] == pytest.approx(0.5 * 1e6 / 400)
    assert measured.check is not None
    assert (measured.check.client, measured.check.server) == (500, 500)
    assert measured.facts["live_bytes"] == 12_345
    assert measured.facts["load_s"] == 4.0


def test_every_metric_is_one_that_the_registry_knows() -> None:
    from perfrunner.spec.metrics import is_metric

    for measured in (
        alone(pillowfight, PILLOWFIGHT),
        alone(append, APPEND),
    ):
        assert [name for name in measured.metrics if not is_metric(name)] == []


def test_a_short_update_has_no_p90() -> None:
    phase = Phase(
        ops=400,
        gets=200,
        sets=200,
        misses=0,
        errors={},
        seconds=0.5,
        series=(Second(0.5, 200, 0.5),),
    )
    measured = alone(append, APPEND, phase=phase)
    assert "ops_per_s_p90" not in measured.metrics
    assert measured.metrics["ops_per_s"] == 800


def test_operations_that_never_happened_have_no_latency() -> None:
    phase = Phase(
        ops=400, gets=0, sets=400, misses=0, errors={}, seconds=4.0,
        series=tuple(Second(float(t), 100, 1.0) for t in range(1, 5)),
        latency={"get": Histogram((), 0), "set": H},
    )  # fmt: skip
    metrics = alone(pillowfight, PILLOWFIGHT, phase=phase).metrics
    assert "latency_get_p50_us" not in metrics
    assert "latency_set_p50_us" in metrics


@pytest.mark.parametrize("trouble", [{"interrupted": True}, {"no_samples": True}])
def test_half_a_measurement_is_none(trouble: dict[str, bool]) -> None:
    with pytest.raises(TrialError):
        alone(pillowfight, PILLOWFIGHT, **trouble)


def test_what_pillowfight_is_asked_for() -> None:
    spec = PillowfightSpec.model_validate(
        {
            "type": "pillowfight", "items": 1000, "duration": "4s", "ramp": 1, "batch": 10, "threads": 3,
            "connections": 2, "set_share": 20, "value_size": [100, 200], "key_semantics": "key-mod",
            "shared_sequence": True, "rate_limit": 5000,
        }
    )  # fmt: skip
    bench = RecordingBench()
    assert set(pillowfight.access_arguments(spec, bench, Share(0, 1))) == {
        "--num-items=1000", "--start-at=0", "--num-threads=3", "--connections=2", "--batch-size=10",
        "--min-size=100", "--max-size=200", "--vbuckets=64", "--random-seed=11", "--no-population",
        "--set-pct=20", "--key-semantics=key-mod", "--duration=4", "--ramp=1", "--shared-sequence",
        "--rate-limit=5000",
    }  # fmt: skip
    populate = pillowfight.populate_arguments(spec, bench, Share(0, 1))
    assert "--populate-only" in populate
    assert not [a for a in populate if a.startswith(("--duration", "--rate-limit", "--set-pct"))]


def test_what_append_is_asked_for() -> None:
    assert set(append.append_arguments(APPEND, RecordingBench(), Share(0, 1))) == {
        "--items=1000", "--rounds=5", "--in-flight=100", "--threads=1", "--fields-min=11",
        "--fields-max=22", "--vbuckets=64", "--seed=11",
    }  # fmt: skip


@pytest.mark.parametrize("total", [1, 7, 1000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_shares_cover_the_keys_without_gap_or_overlap(total: int, count: int) -> None:
    position = 0
    for index in range(count):
        start, length = Share(index, count).slice_of(total)
        assert start == position
        position += length
    assert position == total


def test_several_clients_split_keys_and_rate_and_draw_differently() -> None:
    spec = PILLOWFIGHT.model_copy(update={"rate_limit": 1000})
    first = pillowfight.access_arguments(spec, RecordingBench(), Share(0, 2))
    second = pillowfight.access_arguments(spec, RecordingBench(), Share(1, 2))
    assert {"--num-items=500", "--start-at=0", "--rate-limit=500", "--random-seed=11"} <= set(first)
    assert {"--num-items=500", "--start-at=500", "--rate-limit=500", "--random-seed=12"} <= set(
        second
    )


def test_every_type_has_one_scenario() -> None:
    assert sorted(WORKLOAD_TYPES) == sorted([*SERVER_SCENARIOS, *TOOL_SCENARIOS])
    for name, scenarios in ((ServerWorkload, SERVER_SCENARIOS), (ToolWorkload, TOOL_SCENARIOS)):
        assert {t for t, spec in WORKLOAD_TYPES.items() if issubclass(spec, name)} == {*scenarios}
