"""The exact order of what a scenario does, and the arguments its tools get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfrunner.errors import TrialError, UsageError
from perfrunner.measure.client import ClientCost, ClientReport, Histogram, Phase, Second
from perfrunner.measure.memory import Sample
from perfrunner.measure.turns import Slices, Turns, VariantTurns
from perfrunner.spec.workloads import AppendSpec, PillowfightSpec
from perfrunner.workloads import append, pillowfight
from perfrunner.workloads.bench import Arguments, Share
from perfrunner.workloads.metrics import counted_by_server, driven_interleaved
from perfrunner.workloads.registry import check_runnable

COST = ClientCost(cpu_s=0.5, wall_s=5.0, threads=2, busiest_thread_busy=0.5)
H = Histogram(((1000, 90), (5000, 10)), 140_000.0, 5000)


class RecordingBench:
    """Notes every verb; answers with fixed figures."""

    seed = 11
    vbuckets = 64
    has_figures = True

    def __init__(self, **answers: Any) -> None:
        self.log: list[str] = []
        self.answers = answers
        self.driven = 0.0
        self.count = 1

    def load(
        self,
        tool: str,
        arguments: Arguments,
        *,
        output: str,
        single: bool = False,
        in_step: bool = False,
    ) -> ClientReport:
        self.log.append(f"load {tool} {output}")
        self.arguments = list(arguments(Share(0, self.count)))
        populating = output == "populate"
        phase = self.answers.get("phase") or Phase(
            ops=400, gets=80, sets=320, misses=0, errors={}, seconds=4.0,
            series=tuple(Second(float(t), 100, 1.0) for t in range(1, 5)),
            latency={"get": H, "set": H},
        )  # fmt: skip
        loaded = Phase(ops=100, gets=0, sets=100, misses=0, errors={}, seconds=1.0)
        self.driven += 100 if populating or tool == "append" else 0
        self.driven += 0 if populating else 400
        return ClientReport(
            tool,
            loaded if populating or tool == "append" else None,
            None if populating else phase,
            COST,
            12_345 if tool == "append" else None,
            self.answers.get("interrupted", False),
        )

    def wait_persisted(self) -> None:
        self.log.append("wait-persisted")

    def reset_stats(self) -> None:
        self.log.append("reset")
        self.driven = 0.0

    def counters(self) -> Mapping[str, float]:
        self.log.append("counters")
        return {"cmd_get": 0.0, "cmd_set": self.driven}

    def sample(self, name: str) -> Sample:
        self.log.append(f"sample {name}")
        cpu = {"before": 1.0, "now": 1.0 + 5e-4, "settled": 2.0}[name]
        return Sample(
            0.0,
            1100,
            1000,
            0,
            100,
            0,
            9000,
            0,
            cpu,
            2,
            {"mem_used": 500.0, "total_heap_bytes": 800.0},
        )

    def start_sampling(self, name: str) -> Any:
        self.log.append(f"start sampling {name}")
        bench = self

        class Series:
            def stop(self) -> list[Sample]:
                bench.log.append("stop sampling")
                series = [Sample(0.0, 1100, 1000, 0, 100, 0, 9000, 0, 0.0, 2, {"mem_used": 1.0})]
                return [] if bench.answers.get("no_samples") else series

        return Series()


class RecordingGroup:
    """Variants that note into one log; side by side when there are several."""

    def __init__(self, *variants: RecordingBench, turns: Turns | None = None) -> None:
        self.variants = variants
        self.turns = turns
        self.interleaved = turns is not None
        self.baseline = 0
        self.log = variants[0].log
        for place, variant in enumerate(variants):
            variant.log = self.log if len(variants) == 1 else Numbered(self.log, place)

    def phase(self, name: str, expected_s: float | None = None) -> None:
        self.log.append(f"phase {name}")

    def settle(self, seconds: float) -> None:
        self.log.append(f"settle {seconds:g}")

    def prepare_interleaved(
        self, tool: str, arguments: Callable[[Any, Share], Sequence[str]], *, output: str
    ) -> None:
        self.log.append(f"prepare {tool} {output}")
        self.prepared = list(arguments(self.variants[self.baseline], Share(0, 1)))

    def load_interleaved(
        self, tool: str, arguments: Callable[[Any, Share], Sequence[str]], *, output: str
    ) -> Turns:
        self.log.append(f"turns {tool} {output}")
        self.arguments = list(arguments(self.variants[self.baseline], Share(0, 1)))
        assert self.turns is not None
        for variant, its in zip(self.variants, self.turns.variants, strict=True):
            loaded = its.report.prepare.ops if its.report.prepare else 0
            assert its.report.drive is not None
            variant.driven += its.warmup_ops + loaded + its.report.drive.ops
        return self.turns


class Numbered(list[str]):
    """The log of one variant of several: its lines go to the common one, with its place."""

    def __init__(self, common: list[str], place: int) -> None:
        super().__init__()
        self.common, self.place = common, place

    def append(self, line: str) -> None:
        self.common.append(f"{self.place}: {line}")


def alone(scenario: Any, spec: Any, **answers: Any) -> Any:
    """What one variant measures that runs alone."""
    (measured,) = scenario.run(RecordingGroup(RecordingBench(**answers)), spec)
    return measured


def turns(rates: Sequence[float], rounds: int = 40, *, loaded: int = 0, cpu: bool = True) -> Turns:
    """Every slice 100 operations; the last round is ten times slower for the last variant."""
    variants = []
    for place, rate in enumerate(rates):
        wall = np.full(rounds, 100 / rate * 1e9).astype(np.int64)
        if place == len(rates) - 1:
            wall[-1] *= 10
        ops = 100 * rounds
        drive = Phase(
            ops=ops, gets=ops // 2, sets=ops // 2, misses=0, errors={}, seconds=float(wall.sum()) / 1e9,
            latency={"get": H, "set": H},
        )  # fmt: skip
        prepare = Phase(loaded, 0, loaded, 0, {}, 1.0) if loaded else None
        slices = Slices(
            start_ns=np.arange(rounds), wall_ns=wall, ops=np.full(rounds, 100),
            client_cpu_ns=np.full(rounds, 50_000), position=np.zeros(rounds, np.int64),
            cpu_ns=np.full(rounds, 200_000) if cpu else None,
        )  # fmt: skip
        report = ClientReport("tool", prepare, drive, COST, 77 if loaded else None, False)
        variants.append(
            VariantTurns(report, "{}", slices, 0 if loaded else 30, 0 if loaded else 2, {})
        )
    return Turns("tool", 0.002, 5, 0 if loaded else 3, rounds, 1.0, tuple(variants))


PILLOWFIGHT = PillowfightSpec.model_validate(
    {"type": "pillowfight", "items": 1000, "duration": 4, "ramp": 1, "batch": 10, "settle": 2}
)
APPEND = AppendSpec.model_validate({"type": "append", "items": 1000, "settle": 2})


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
    bench = RecordingGroup(RecordingBench(), RecordingBench(), turns=turns([100, 50]))
    pillowfight.run(bench, PILLOWFIGHT)
    both = lambda line: [f"0: {line}", f"1: {line}"]  # noqa: E731
    assert bench.log == [
        "phase populate", "prepare pillowfight populate",
        "phase persist", "0: wait-persisted", "0: reset", "1: wait-persisted", "1: reset",
        "0: sample before", "0: counters", "1: sample before", "1: counters",
        "phase access", *both("start sampling samples"), "turns pillowfight client", *both("stop sampling"),
        "0: sample now", "0: counters", "1: sample now", "1: counters",
        "phase settle", "settle 2", *both("sample settled"),
    ]  # fmt: skip
    assert "--slice=0.002" in bench.arguments
    assert "--populate-only" in bench.prepared


def test_throughput_side_by_side_is_robust_and_has_its_totals_beside_it() -> None:
    bench = RecordingGroup(RecordingBench(), RecordingBench(), turns=turns([100, 50]))
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


def with_clocks(found: Turns, *, idle_cpu_ns: int | None = None) -> Turns:
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
        for variant in found.variants
    )
    return replace(found, variants=variants, seconds=100.0, idle_s=0.2)


def test_the_parts_of_the_time_per_operation_add_up() -> None:
    base, _ = driven_interleaved(with_clocks(turns([100, 50])), 0)
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
    base, _ = driven_interleaved(with_clocks(turns([100, 50])), 0)
    assert base.metrics["background_cpu_us_per_op"] == pytest.approx(0.5)
    assert base.metrics["total_cpu_us_per_op"] == pytest.approx(2.0)
    assert base.metrics["background_cpu_ms_per_s"] == pytest.approx(2.0 / (100 - 40))


def test_work_that_is_done_without_load_is_charged_once() -> None:
    """Of 2 ms outside the slices, in 60 s, 1.5 ms would have been used without any load."""
    idle = with_clocks(turns([100, 50]), idle_cpu_ns=5_000)
    base, _ = driven_interleaved(idle, 0)
    assert base.metrics["idle_cpu_ms_per_s"] == pytest.approx(0.025)
    assert base.metrics["background_cpu_us_per_op"] == pytest.approx(0.5 * 0.25)
    assert base.metrics["total_cpu_us_per_op"] == pytest.approx(1.5 + 0.5 * 0.25)
    busy, _ = driven_interleaved(with_clocks(turns([100, 50]), idle_cpu_ns=10**9), 0)
    assert busy.metrics["total_cpu_us_per_op"] == pytest.approx(1.5), (
        "never less than in its slices"
    )


def test_without_all_clocks_there_are_no_parts() -> None:
    base, _ = driven_interleaved(turns([100, 50]), 0)
    assert "total_cpu_us_per_op" not in base.metrics


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
        RecordingBench(), RecordingBench(), turns=turns([100, 50], loaded=10, cpu=False)
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
        latency={"get": Histogram((), 0.0, 0), "set": H},
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


def test_a_type_without_a_scenario_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="unknown workload type ycsb") as caught:
        check_runnable("ycsb")
    assert caught.value.hint == "known types: append, latency, microbench, pillowfight, sdk, step"
