"""What the scenario of `type: step` does, in which order, and what its load is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.client import parse_report
from perfrunner.spec.metrics import OF_STEPS, is_metric
from perfrunner.spec.workloads import StepSpec
from perfrunner.workloads import SERVER_SCENARIOS
from perfrunner.workloads.bench import Arguments, Around, Share, Step

H = {"count": 2, "mean": 1500.0, "max": 2000, "buckets": [[1000, 1], [2000, 1]]}


def spec(change: str = "failover", **changes: Any) -> StepSpec:
    document = {
        "type": "step",
        "change": change,
        "items": 1000,
        "before": 2,
        "after": 3,
        "batch": 10,
    }
    return StepSpec.model_validate({**document, **changes})


class Bench:
    """Notes every verb. Two load processes: each 5 operations a millisecond, none from 3.0 to 3.25 s, until 6.5 s."""

    seed = 11
    vbuckets = 64

    def __init__(self, **results: Any) -> None:
        self.log: list[str] = []
        self.results = results

    def load(self, tool: str, arguments: Arguments, *, output: str) -> None:
        self.log.append(f"load {tool} {output}")
        self.populating = list(arguments(Share(0, 1)))

    def wait_persisted(self) -> None:
        self.log.append("wait-persisted")

    def reset_stats(self) -> None:
        self.log.append("reset")

    def fail_over(self, detection: float = 0.0) -> Mapping[str, object]:
        self.log.append(f"failover after {detection:g} s")
        return {"kind": "failover"}

    def rebalance(self, share: float, at_once: int) -> Mapping[str, object]:
        self.log.append(f"rebalance {share:g} % by {at_once}")
        return {"kind": "rebalance"}

    def load_around(
        self,
        tool: str,
        arguments: Arguments,
        step: Step,
        *,
        output: str,
        before: float,
        after: float,
    ) -> Around:
        self.log.append(f"load {tool} {output}: {before:g} s, step, {after:g} s")
        self.messages = [list(arguments(Share(n, 2))) for n in range(2)]
        texts = {f"{output}-{n}.json": json.dumps(self._report()) for n in (1, 2)}
        return Around(texts, 3.0, 3.5, step())

    def _report(self) -> dict[str, Any]:
        client = {"cpu_user_s": 0.5, "cpu_sys_s": 0.0, "wall_s": 6.5, "threads": 1}
        series = [{"t": t + 1.0, "ops": 5000} for t in range(6)]
        results = {"lost": 2, "foreign": 0, "not_my_vbucket": 4, "broken_off": 1, "maps": 2, "misses": 3,
                 "absent": 0, "documents": 500, "unread": 0, "failed": 0, **self.results}  # fmt: skip
        return {
            "tool": "consistency_checker", "schema": 1, "populate": None, "client": client,
            "learn": {"documents": 500, "absent": results["absent"], "errors": {"etmpfail": results["unread"]}},
            "access": {
                "ops": 30_000, "gets": 20_000, "sets": 10_000, "errors": {}, "seconds": 6.5, "series": series,
                "latency_ns": {"get": H, "set": H}, "per_ms": [5] * 3000 + [0] * 250 + [5] * 3250, **results,
            },
            "check": {
                "documents": results["documents"], "lost": 1, "foreign": 0, "errors": {"etmpfail": results["failed"]},
            },
        }  # fmt: skip


class Group:
    interleaved = False
    baseline = 0

    def __init__(self, variant: Bench) -> None:
        self.variants = [variant]

    def phase(self, name: str) -> None:
        self.variants[0].log.append(f"phase {name}")


def run(bench: Bench, workload: StepSpec) -> Any:
    (measured,) = SERVER_SCENARIOS["step"](Group(bench), workload)  # type: ignore[arg-type]
    return measured


@pytest.mark.parametrize(
    ("workload", "done"),
    [
        (spec(detection="500ms"), "failover after 0.5 s"),
        (spec("rebalance", share=25, at_once=8), "rebalance 25 % by 8"),
    ],
)
def test_its_order(workload: StepSpec, done: str) -> None:
    bench = Bench()
    run(bench, workload)
    assert bench.log == [
        "phase populate", "load pillowfight populate", "phase persist", "wait-persisted", "reset",
        f"phase access and {workload.change}", "load consistency_checker client: 3 s, step, 3 s", done,
    ]  # fmt: skip


def test_its_metrics() -> None:
    measured = run(Bench(), spec())
    metrics = measured.metrics
    assert set(OF_STEPS) < set(metrics)
    assert all(is_metric(name) and spec().may_give(name) for name in metrics)
    assert metrics["ops_per_s_before"] == 10_000
    assert metrics["ops_per_s_during"] == 5000
    assert metrics["ops_per_s_after"] == 10_000
    assert metrics["ops_per_s"] == pytest.approx(10_000 * 5.25 / 5.5)
    assert (metrics["step_s"], metrics["service_gap_ms"]) == (0.5, 250)
    assert (metrics["lost_writes"], metrics["misses"], metrics["nmvb_retries"]) == (6, 6, 8)
    assert metrics["latency_get_p50_us"] == 1.0
    assert metrics["client_cpu_us_per_op"] == pytest.approx(1e6 / 60_000)
    assert measured.facts["step"] == {
        "kind": "failover", "began_s": 3.0, "ended_s": 3.5, "broken_off": 2, "maps": 2,
        "verified_documents": 1000,
    }  # fmt: skip
    assert measured.facts["load_s"] == 5.5


def test_misses_and_lost_writes_are_figures_and_make_no_trial_discarded() -> None:
    from perfrunner.experiment.trial.outcome import discarded_reasons
    from perfrunner.spec.model import Limits

    measured = run(Bench(), spec())
    assert discarded_reasons(measured, Limits()) == []
    assert measured.report.drive.ops == 60_000
    bad = run(Bench(errors={"etmpfail": 1}), spec())
    assert discarded_reasons(bad, Limits()) == [
        "2 operations failed (limits.errors: 0): etmpfail 2"
    ]


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({"absent": 1}, "2 documents were missing before the step"),
        ({"documents": 499}, "998 of 1000 documents were read after the step"),
        ({"failed": 1}, "998 of 1000 documents were read after the step"),
        ({"unread": 2}, "4 documents could not be read before the step"),
        ({"foreign": 3}, "6 documents were written by another client"),
    ],
)
def test_an_account_that_cannot_be_right_is_a_failure(results: dict[str, int], says: str) -> None:
    with pytest.raises(TrialError, match=says):
        run(Bench(**results), spec())


def test_what_its_load_is_given() -> None:
    bench = Bench()
    run(bench, spec(detection=2, threads=3, connections=2, value_size=[20, 40], set_share=70))
    first, second = (set(words) for words in bench.messages)
    assert {"--start-at=0", "--num-items=500", "--random-seed=11"} <= first
    assert {"--start-at=500", "--num-items=500", "--random-seed=12"} <= second
    both = {"--num-threads=3", "--connections=2", "--batch-size=10", "--min-size=20", "--max-size=40",
            "--set-pct=70", "--ramp=1", "--vbuckets=64", "--op-timeout=62"}  # fmt: skip
    assert both == (first & second) - {"--num-items=500"}
    assert {"--populate-only", "--num-items=1000"} <= set(bench.populating)


def test_the_report_is_one_of_the_load_tools() -> None:
    report = parse_report(json.dumps(Bench()._report()), "client.json")
    assert report.tool == "consistency_checker"
    assert report.prepare is None
    assert report.drive is not None
    assert len(report.drive.series) == 6
