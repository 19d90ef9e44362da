"""What the programs without an engine are asked for, and what becomes of their reports."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.preflight.builds import measured_programs
from perfrunner.experiment.trial.tool import stat_groups
from perfrunner.measure.microbench import Conducted, parse_conducted
from perfrunner.spec.base import PositiveCount
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec, ToolWorkload
from perfrunner.workloads import latency, microbench
from perfrunner.workloads.bench import Group, Measured, ServerBench, Slicing, ToolGroup

HOW_TO = (Path(__file__).parents[3] / "docs/how-to/add-a-workload.md").read_text()


class RecordingToolBench:
    """Answers with a fixed report; notes every verb in order."""

    def __init__(self, report: object, *, refuse: bool = False) -> None:
        self.report = report if isinstance(report, str) else json.dumps(report)
        self.refuse = refuse
        self.log: list[str] = []
        self.arguments: list[str] = []
        self.settings: dict[str, str] = {}

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        self.log.append(f"tool {program} {output}")
        self.arguments = list(arguments)
        return self.report

    def check_settings(self, settings: Mapping[str, str]) -> None:
        self.log.append("check")
        self.settings = dict(settings)
        if self.refuse:
            raise TrialError("another build")


class RecordingTools:
    """Programs side by side when there is a conductor's document, else one variant alone."""

    def __init__(self, *variants: RecordingToolBench, conducted: Conducted | None = None) -> None:
        self.variants = variants
        self.log = variants[0].log
        self.conducted = conducted
        self.interleaved = conducted is not None
        self.baseline = 0
        self.asked: Any = None

    def phase(self, name: str) -> None:
        self.log.append(f"phase {name}")

    def conduct(
        self, program: str, arguments: Sequence[str], slicing: Slicing, *, output: str
    ) -> Conducted:
        self.asked = (program, list(arguments), slicing, output)
        assert self.conducted is not None
        return self.conducted


def alone(scenario: Any, bench: RecordingToolBench, spec: Any) -> Any:
    (measured,) = scenario.run(RecordingTools(bench), spec)
    return measured


def gb_report() -> dict[str, Any]:
    return {
        "context": {"build.cursor_drop": "walk", "allocator.name": "system", "num_cpus": 2},
        "benchmarks": [
            {
                "run_name": f"FlushVBucket/discard/insert/{n}/iterations:10", "run_type": "iteration",
                "repetitions": 1, "real_time": 2.0 * n, "cpu_time": 1.0 * n, "time_unit": "us",
                "PeakBytesPerItem": 700.0,
            }
            for n in (1, 100, 10_000)
        ],
    }  # fmt: skip


MICROBENCH = MicrobenchSpec(
    type="microbench", program="flush_bench", filter="discard/(1|100)$", min_time=0.5, repetitions=3,
    counters=["PeakBytesPerItem"], growth=["FlushVBucket/discard/insert"],
)  # fmt: skip


def test_a_benchmark_is_asked_for_json_and_its_settings_are_checked() -> None:
    bench = RecordingToolBench(gb_report())
    measured = alone(microbench, bench, MICROBENCH)
    assert bench.log == ["phase measure", "tool flush_bench bench", "check"]
    assert bench.arguments == [
        "--benchmark_format=json",
        "--benchmark_filter=discard/(1|100)$",
        "--benchmark_min_time=0.5",
        "--benchmark_repetitions=3",
    ]
    assert bench.settings["build.cursor_drop"] == "walk"
    assert measured.report is None
    assert measured.metrics["FlushVBucket/discard/insert/100"] == 200_000.0
    assert measured.metrics["FlushVBucket/discard/insert/100/PeakBytesPerItem"] == 700.0
    assert measured.metrics["FlushVBucket/discard/insert/growth"] == pytest.approx(1.0)


def latency_report(**changes: Any) -> dict[str, Any]:
    figures = {"p50_us": 1.0, "p95_us": 2.0, "p99_us": 3.0, "sd_us": 0.5, "mean_us": 1.1, "n": 5}
    return {
        "tool": "front_end_latency",
        "build": {"dcp_ready": "onelock"},
        "allocator": {
            "name": "jemalloc-5.1.0",
            "version": "5.1.0",
            "options": {"opt.narenas": "1"},
        },
        "phases": dict.fromkeys(("add", "get", "replace", "delete"), figures),
        "dcp": {"messages": 7},
        **changes,
    }


def test_the_latency_program_is_asked_for_what_the_spec_says() -> None:
    bench = RecordingToolBench(latency_report())
    spec = LatencySpec(type="latency", items=500, value_size=64, dcp="busy", bucket="ephemeral")
    measured = alone(latency, bench, spec)
    assert bench.log == ["phase measure", "tool front_end_latency latency", "check"]
    assert bench.arguments == [
        "--items=500",
        "--value-size=64",
        "--dcp=busy",
        "--bucket-type=ephemeral",
    ]
    assert measured.metrics["Latency/Delete/p99_us"] == 3.0
    assert len(measured.metrics) == 16
    assert measured.facts["dcp"] == {"messages": 7}


def test_what_an_older_program_does_not_know_is_asked_for_only_where_it_is_wanted() -> None:
    spec = LatencySpec(
        type="latency", dcp="notify", backlog="alone", vbuckets=1024, busy_vbuckets=8, buffer_size="10MiB"
    )  # fmt: skip
    assert latency.arguments(spec)[4:] == [
        "--backlog=alone",
        "--vbuckets=1024",
        "--busy-vbuckets=8",
        "--buffer-size=10485760",
        "--ack-above=5242880",
    ]
    assert len(latency.arguments(LatencySpec(type="latency"))) == 4
    acknowledging = LatencySpec(type="latency", ack_above=100)
    assert latency.arguments(acknowledging)[4:] == ["--buffer-size=1024", "--ack-above=100"]


def test_the_clients_rate_is_a_metric_where_it_was_timed() -> None:
    spec = LatencySpec(type="latency", dcp="busy", backlog="alone")
    bench = RecordingToolBench(latency_report(dcp={"messages": 7, "items_per_s": 5e5}))
    assert alone(latency, bench, spec).metrics["Latency/Dcp/items_per_s"] == 5e5
    assert spec.may_give("Latency/Dcp/items_per_s")
    assert not LatencySpec(type="latency", dcp="busy").may_give("Latency/Dcp/items_per_s")
    none = RecordingToolBench(latency_report(dcp=None))
    assert len(alone(latency, none, LatencySpec(type="latency")).metrics) == 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backlog": "beside"}, "there is no DCP client"),
        ({"dcp": "busy", "backlog": "alone", "bucket": "ephemeral"}, "keeps no backlog"),
        ({"vbuckets": 8, "busy_vbuckets": 9}, r"at most vbuckets \(8\)"),
        ({"vbuckets": 1025}, "less than or equal to 1024"),
        ({"ack_above": 1024}, r"fewer bytes than buffer_size \(1024\)"),
        ({"buffer_size": 64, "ack_above": "1KiB"}, r"fewer bytes than buffer_size \(64\)"),
    ],
)
def test_a_client_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LatencySpec(type="latency", **settings)


def test_allocator_options_are_checked_under_the_names_of_stat_allocator() -> None:
    bench = RecordingToolBench(latency_report())
    alone(latency, bench, LatencySpec(type="latency"))
    assert bench.settings == {
        "build.dcp_ready": "onelock",
        "allocator.name": "jemalloc-5.1.0",
        "allocator.version": "5.1.0",
        "allocator.opt.narenas": "1",
    }


@pytest.mark.parametrize(
    "report", ["", "[]", "{}", latency_report(phases={"add": {}}), latency_report(build=None)]
)
def test_what_is_no_latency_report_fails_the_trial(report: object) -> None:
    with pytest.raises(TrialError, match="not a report of front_end_latency"):
        alone(latency, RecordingToolBench(report), LatencySpec(type="latency"))


def test_another_build_fails_the_trial() -> None:
    with pytest.raises(TrialError, match="another build"):
        alone(
            latency, RecordingToolBench(latency_report(), refuse=True), LatencySpec(type="latency")
        )
    with pytest.raises(TrialError, match="another build"):
        alone(microbench, RecordingToolBench(gb_report(), refuse=True), MICROBENCH)


def document(names: Mapping[str, tuple[float, float]], **variant: Any) -> str:
    """Two variants, five rounds of 10 iterations; by benchmark the ns an iteration of each. One slice is a slow one."""
    benchmarks = []
    for name, pair in names.items():
        variants = []
        for ns in pair:
            real = [10 * ns] * 5
            real[3] *= 50 if ns == pair[-1] else 1
            variants.append({
                "iterations": [10] * 5, "real_ns": real, "cpu_ns": [5 * ns] * 5, "position": [0] * 5,
                "counters": {"PeakBytesPerItem": [700.0] * 5, "p50_us": [ns / 1000] * 5},
            })  # fmt: skip
        benchmarks.append(
            {"name": name, "full": name, "pass": None, "rounds": 5, "variants": variants}
        )
    single = {
        "name": "0",
        "pid": 1,
        "context": {"build.x": "y"},
        "report": None,
        "stderr": "",
        **variant,
    }
    return json.dumps({"tool": "conductor", "schema": 1, "failure": None, "failed_variant": None,
                       "variants": [single, single], "benchmarks": benchmarks})  # fmt: skip


def test_benchmarks_side_by_side_are_robust_over_rounds() -> None:
    family = "FlushVBucket/discard/insert"
    sizes = {f"{family}/{n}/iterations:10": (n * 2e3, n * 1e3) for n in (1, 100, 10_000)}
    conducted = parse_conducted(document(sizes), "conductor.json")
    tools = RecordingTools(RecordingToolBench({}), RecordingToolBench({}), conducted=conducted)
    base, other = microbench.run(tools, MICROBENCH)
    assert tools.asked == (
        "flush_bench", [], Slicing(0.02, 1.5, "discard/(1|100)$"), "bench",
    )  # fmt: skip
    assert base.metrics["FlushVBucket/discard/insert/100"] == pytest.approx(200_000)
    assert other.metrics["FlushVBucket/discard/insert/100"] == pytest.approx(100_000)
    assert other.metrics["FlushVBucket/discard/insert/100/cpu_time"] == pytest.approx(50_000)
    assert other.metrics["FlushVBucket/discard/insert/100/PeakBytesPerItem"] == pytest.approx(700)
    assert other.metrics["FlushVBucket/discard/insert/growth"] == pytest.approx(1.0)
    assert other.facts["rounds"] == 5
    assert conducted.benchmarks[0].totals()[1] > 10 * 1e3, "the totals have the slow slice in them"


def test_latency_side_by_side_freezes_and_pairs_the_medians() -> None:
    text = document(
        dict.fromkeys(("add", "get", "replace", "delete"), (1000.0, 500.0)), report=latency_report()
    )
    conducted = parse_conducted(text, "conductor.json")
    tools = RecordingTools(RecordingToolBench({}), RecordingToolBench({}), conducted=conducted)
    base, other = latency.run(tools, LatencySpec(type="latency"))
    assert tools.asked[2].frozen
    assert base.metrics["Latency/Add/p50_us"] == pytest.approx(1.0)
    assert other.metrics["Latency/Add/p50_us"] == pytest.approx(0.5)
    assert other.metrics["Latency/Add/p99_us"] == 3.0, "of all operations together"
    assert len(other.metrics) == 16


def test_latency_side_by_side_takes_the_clients_rate_from_the_whole_of_it() -> None:
    report = latency_report(dcp={"items_per_s": 5e5})
    phases = ("add", "dcp", "get", "replace", "delete")
    text = document(dict.fromkeys(phases, (1000.0, 500.0)), report=report)
    conducted = parse_conducted(text, "conductor.json")
    tools = RecordingTools(RecordingToolBench({}), RecordingToolBench({}), conducted=conducted)
    spec = LatencySpec(type="latency", dcp="busy", backlog="alone")
    for measured in latency.run(tools, spec):
        assert measured.metrics["Latency/Dcp/items_per_s"] == 5e5
        assert "Latency/Dcp/p50_us" not in measured.metrics, "one operation has no median"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("", "not a conductor's report"),
        ('{"tool": "conductor", "schema": 2}', "of schema 1"),
        (document({}), "holds no benchmark"),
        (document({"A/1": (1.0, 1.0)}).replace('"rounds": 5', '"rounds": 4'), "lists of other lengths"),
        (document({"A/1": (1.0, 1.0)}).replace('"failure": null', '"failure": "it died"'), "it died"),
        (document({"A/1": (1.0, float("nan"))}), "not a conductor's report"),
    ],
)  # fmt: skip
def test_half_a_document_is_none(broken: str, says: str) -> None:
    with pytest.raises(TrialError, match=says):
        parse_conducted(broken, "conductor.json")


def test_a_programs_context_reads_like_the_engines_stat_groups() -> None:
    assert stat_groups(
        {
            "build.ht_stats": "core",
            "allocator.name": "system",
            "allocator.opt.narenas": "8",
            "num_cpus": "2",
        }
    ) == {
        "config": {"build.ht_stats": "core"},
        "allocator": {"name": "system", "opt.narenas": "8"},
    }


def test_the_example_of_the_how_to_runs_a_program_and_reports_its_figure() -> None:
    names: dict[str, Any] = {
        "json": json,
        "ClassVar": ClassVar,
        "Literal": Literal,
        "Measured": Measured,
        "PositiveCount": PositiveCount,
        "ToolGroup": ToolGroup,
        "ToolWorkload": ToolWorkload,
    }
    for block in re.findall(r"(?ms)^ *```python\n(.*?)^ *```", HOW_TO):
        exec(compile(textwrap.dedent(block), "how-to", "exec", dont_inherit=True), names)
    spec = names["ReplaySpec"].model_validate({"type": "replay", "items": 7})
    variant = RecordingToolBench({"settings": {"build.pager": "scan"}, "p50_us": 1.5})
    (measured,) = names["run"](RecordingTools(variant), spec)
    assert measured.metrics == {"Replay/p50_us": 1.5}
    assert variant.log == ["phase measure", "tool replay replay", "check"]
    assert variant.arguments == ["--items=7"]
    assert spec.why_alone
    experiment: Any = SimpleNamespace(workloads={"mine": spec})
    assert measured_programs(experiment) == ("replay",)


@pytest.mark.parametrize(
    "verb", re.findall(r"`(\w+)`", " ".join(re.findall(r"(?m)^\| (`.*?) \|", HOW_TO)))
)
def test_a_verb_of_the_how_to_exists(verb: str) -> None:
    assert hasattr(ServerBench, verb) or hasattr(Group, verb)
