"""The real programs as trials: what they report is a metric each, and a build that is another one is refused."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.experiment.trial.tool import ToolBench, ToolGroupBench
from perfrunner.hosts import open_host
from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.assemble import profile_names
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.loader import load_spec
from perfrunner.spec.metrics import is_metric
from perfrunner.spec.variant import Variant
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec
from perfrunner.workloads import latency, microbench
from tests.support.built import built
from tests.support.trials import open_trial

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
DROP = "CheckpointBench/GetCursorsToDrop"
QUICK = {"type": "microbench", "program": "checkpoint_bench", "min_time": 0.01}


@pytest.fixture(scope="module")
def artifact() -> str:
    """A build of the defaults with the system's allocator (scripts/test makes it)."""
    return str(built("checkpoint_bench"))


@contextlib.contextmanager
def bench(
    artifact: str, tmp_path: Path, variants: int = 1, **options: str
) -> Iterator[ToolGroupBench]:
    """Of one artifact: alone, or `variants` times side by side."""
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as host:
        recorder = ScriptRecorder("test")
        tools = []
        for slot in range(1, variants + 1):
            directory, remote = tmp_path / f"trial-{slot}", f"{host.work_dir}/t{slot}"
            directory.mkdir()
            host.transport.makedirs(remote)
            mine = recorder.variant(slot if variants > 1 else 0)
            recorder.add_host(
                mine.place("local"),
                ssh=None,
                artifact=artifact,
                tools=artifact,
                work={remote: ""},
                script_work="/w",
            )
            tools.append(
                ToolBench(
                    host=host.transport,
                    remote=remote,
                    variant=Variant(
                        name="v", allocator=AllocatorSpec(name="system"), options=options
                    ),
                    env={},
                    trial=open_trial(
                        directory, mine, deadline=time.monotonic() + 120, artifact=artifact
                    ),
                )
            )
        yield ToolGroupBench(
            variants=tools,
            interleaved=variants > 1,
            baseline=0,
            cpus="auto",
            round_seed=7,
            on_phase=lambda *_: None,
        )
        assert host.processes() == []


def test_its_figures_are_metrics(artifact: str, tmp_path: Path) -> None:
    spec = MicrobenchSpec(
        **QUICK, filter=f"{DROP}/(1|10|100)$", counters=["checkpoints"], growth=[DROP]
    )
    with bench(artifact, tmp_path, cursor_drop="compare") as tools:
        (measured,) = microbench.run(tools, spec)
    assert {f"{DROP}/1", f"{DROP}/100/cpu_time", f"{DROP}/growth"} <= set(measured.metrics)
    assert measured.metrics[f"{DROP}/100/checkpoints"] == pytest.approx(101, abs=2)
    assert abs(measured.metrics[f"{DROP}/growth"]) < 0.3, "comparing ids does not grow"
    assert all(is_metric(name) for name in measured.metrics)


def test_a_consumers_walk_and_what_is_timed_next_to_it(artifact: str, tmp_path: Path) -> None:
    spec = MicrobenchSpec(
        type="microbench", program="consumer_bench", min_time=0.01, filter="ConsumerBench/.*/16"
    )
    with bench(artifact, tmp_path, dcp_consumer_probe="before") as tools:
        (measured,) = microbench.run(tools, spec)
    names = ("Drain", "DrainBesideReceiver", "ReceiverBesideDrain")
    results = {f"ConsumerBench/{name}/16{of}" for name in names for of in ("", "/cpu_time")}
    assert set(measured.metrics) == results
    assert all(is_metric(name) and value > 0 for name, value in measured.metrics.items())


def test_side_by_side_every_variant_has_the_same_metrics(artifact: str, tmp_path: Path) -> None:
    spec = MicrobenchSpec(
        **QUICK, filter=f"{DROP}/(1|10|100)$", counters=["checkpoints"], growth=[DROP]
    )
    with bench(artifact, tmp_path, variants=2, cursor_drop="compare") as tools:
        single, other = microbench.run(tools, spec)
    assert set(single.metrics) == set(other.metrics)
    assert {f"{DROP}/1", f"{DROP}/100/cpu_time", f"{DROP}/growth"} <= set(single.metrics)
    assert single.metrics[f"{DROP}/100/checkpoints"] == pytest.approx(101, abs=2)
    assert all(is_metric(name) for name in single.metrics)
    assert all(value > 0 for name, value in single.metrics.items() if not name.endswith("growth"))


def test_side_by_side_latency_takes_turns_at_each_phase(artifact: str, tmp_path: Path) -> None:
    spec = LatencySpec(type="latency", items=4000, dcp="busy", slice=0.002)
    with bench(artifact, tmp_path, variants=2) as tools:
        single, other = latency.run(tools, spec)
    for measured in (single, other):
        assert len(measured.metrics) == 16
        assert all(value > 0 and is_metric(name) for name, value in measured.metrics.items())
        rounds = measured.facts["rounds"]
        assert isinstance(rounds, int)
        assert rounds >= 1


@pytest.mark.parametrize("variants", [1, 2])
def test_a_client_that_is_sent_a_backlog_alone_has_a_rate(
    artifact: str, tmp_path: Path, variants: int
) -> None:
    spec = LatencySpec(
        type="latency", items=2000, dcp="notify", backlog="alone", vbuckets=64, buffer_size="1MiB"
    )
    with bench(artifact, tmp_path, variants=variants) as tools:
        results = latency.run(tools, spec)
    for measured in results:
        assert len(measured.metrics) == 17
        assert measured.metrics["Latency/Dcp/items_per_s"] > 1000
        assert all(value > 0 and is_metric(name) for name, value in measured.metrics.items())
        dcp = measured.facts["dcp"]
        assert isinstance(dcp, dict)
        assert dcp["documents_after"]["dcp"] == 2000


def test_a_client_may_be_sent_a_backlog_next_to_the_phases(artifact: str, tmp_path: Path) -> None:
    spec = LatencySpec(
        type="latency", items=2000, dcp="busy", backlog="beside", vbuckets=64, busy_vbuckets=8
    )
    with bench(artifact, tmp_path, variants=2) as tools:
        results = latency.run(tools, spec)
    for measured in results:
        assert len(measured.metrics) == 16
        dcp = measured.facts["dcp"]
        assert isinstance(dcp, dict)
        assert set(dcp["documents_after"]) == {"get", "replace", "delete"}
        assert dcp["documents"] >= 2000


def test_more_threads_than_cpus_share_them(artifact: str, tmp_path: Path) -> None:
    spec = MicrobenchSpec(
        type="microbench",
        program="hash_table_bench",
        filter="HTBOversubscribed/(HTStatsEpilogue|Delete/sized)/",
        min_time=0.01,
        counters=["cpus"],
    )
    with bench(artifact, tmp_path, variants=2) as tools:
        single, _ = microbench.run(tools, spec)
    cpus = len(os.sched_getaffinity(0))
    for name in ("HTStatsEpilogue", "Delete/sized"):
        family = f"HTBOversubscribed/{name}/threads:{2 * cpus}"
        assert single.metrics[family] > 0
        assert single.metrics[f"{family}/cpus"] == pytest.approx(cpus)
    assert all(is_metric(name) for name in single.metrics)


@pytest.mark.parametrize("variants", [1, 2])
def test_a_build_of_another_variant_is_refused(
    artifact: str, tmp_path: Path, variants: int
) -> None:
    spec = MicrobenchSpec(**QUICK, filter=f"{DROP}/1$")
    with (
        bench(artifact, tmp_path, variants=variants, cursor_drop="walk") as tools,
        pytest.raises(TrialError, match="asked for walk, the engine has compare"),
    ):
        microbench.run(tools, spec)


@pytest.mark.parametrize("variants", [1, 2])
def test_a_filter_that_matches_nothing_is_reported(
    artifact: str, tmp_path: Path, variants: int
) -> None:
    spec = MicrobenchSpec(**QUICK, filter="Nothing")
    with bench(artifact, tmp_path, variants=variants) as tools, pytest.raises(TrialError):
        microbench.run(tools, spec)


def test_front_end_latency_is_measured_in_all_its_phases(artifact: str, tmp_path: Path) -> None:
    spec = LatencySpec(type="latency", items=2000, dcp="notify")
    with bench(artifact, tmp_path) as tools:
        (measured,) = latency.run(tools, spec)
    assert len(measured.metrics) == 16
    assert all(value > 0 and is_metric(name) for name, value in measured.metrics.items())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "specs" / "experiments").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_filters_of_a_bundled_spec_and_its_profiles_take_something(
    artifact: str, path: Path
) -> None:
    for profile in (None, *profile_names(path)):
        for name, workload in load_spec(path, profile=profile).workloads.items():
            if isinstance(workload, MicrobenchSpec):
                program = Path(artifact) / "bin" / workload.program
                chosen = f"--benchmark_filter={workload.filter}"
                listed = subprocess.check_output([program, "--benchmark_list_tests", chosen])
                assert listed.strip(), f"profile {profile}, {name}: {workload.filter}"
