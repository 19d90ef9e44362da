"""What the scenario of `type: sdk` does, in which order, and what its processes are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.memory import Sample
from perfrunner.spec.metrics import is_metric
from perfrunner.spec.workloads import SdkSpec
from perfrunner.workloads import SERVER_SCENARIOS
from perfrunner.workloads.bench import Arguments, ClientProgram, Share
from perfrunner.workloads.sdk import Verified, parse_verified, sdk_program
from tests.support.recording import sample_of

CLIENTS = 2
H = {"count": 2, "mean": 1500.0, "max": 2000, "buckets": [[1000, 1], [2000, 1]]}


def spec(**changes: Any) -> SdkSpec:
    document = {"type": "sdk", "items": 1000, "processes": 2, "duration": "4s", "settle": 1}
    return SdkSpec.model_validate({**document, **changes})


class Bench:
    """Notes every verb; its processes report fixed figures: 100 operations a second each."""

    seed = 11
    vbuckets = 64

    def __init__(self, *, persistent: bool = True, wrong: str = "", **access: Any) -> None:
        self.persistent, self.wrong, self.access = persistent, wrong, access
        self.log: list[str] = []
        self.messages: dict[str, list[list[str]]] = {}

    def load_program(
        self,
        program: ClientProgram,
        arguments: Arguments,
        *,
        output: str,
        processes: int,
        in_step: bool = False,
    ) -> Mapping[str, str]:
        assert program == sdk_program()
        self.log.append(f"{output}{' in step' if in_step else ''}")
        count = CLIENTS * processes
        self.messages[output] = [list(arguments(Share(n, count))) for n in range(count)]
        return {
            f"{output}-{n + 1}.json": json.dumps(self._report(output, Share(n, count)))
            for n in range(count)
        }

    def _report(self, output: str, share: Share) -> dict[str, Any]:
        client = {
            "cpu_user_s": 0.5,
            "cpu_sys_s": 0.0,
            "wall_s": 4.0,
            "threads": 1,
            "busiest_thread_busy": 0.3,
        }
        report = {"tool": "sdk", "schema": 1, "populate": None, "access": None, "client": client,
                  "versions": {"couchbase": "4.6.3"}}  # fmt: skip
        if output.startswith("verify"):
            bad = output == self.wrong and share.index == 1
            examples = ["sdk-000000000003: expected version 2, it is version 1"] if bad else []
            _, items = share.slice_of(1000)
            report["verify"] = {"documents": items, "wrong": len(examples), "examples": examples}
        elif output == "client":
            series = [{"t": float(t), "ops": 100} for t in range(1, 5)]
            report["access"] = {"ops": 400, "gets": 300, "sets": 100, "misses": 0, "errors": {}, "seconds": 4.0,
                                "series": series, "latency_ns": {"get": H, "set": H}, **self.access}  # fmt: skip
        return report

    def kept_for(self, share: Share, name: str) -> str:
        return f"/w/{name}-{share.index + 1}"

    copies = 2

    def restart(self) -> None:
        self.log.append("engine restart")

    def fail_over(self, detection: float = 0.0) -> Mapping[str, object]:
        self.log.append("failover")
        return {"kind": "failover", "killed": "kv2"}

    def wait_persisted(self) -> None:
        self.log.append("wait-persisted")

    def reset_stats(self) -> None:
        self.log.append("reset")

    def counters(self) -> Mapping[str, float]:
        done = 400.0 * CLIENTS * 2 if "client in step" in self.log else 0.0
        return {"cmd_get": done, "cmd_set": 0.0}

    def sample(self, name: str) -> Sample:
        self.log.append(f"sample {name}")
        cpu = {"before": 1.0, "now": 1.16, "settled": 2.0}[name]
        return sample_of(cpu)

    def start_sampling(self, name: str) -> Any:
        bench = self

        class Series:
            def stop(self) -> list[Sample]:
                bench.log.append("stop sampling")
                return [Sample(0.0, 1100, 1000, 0, 100, 0, 9000, 0, 0.0, 2, {"mem_used": 1.0})]

        self.log.append("start sampling")
        return Series()


class Group:
    interleaved = False
    baseline = 0

    def __init__(self, variant: Bench) -> None:
        self.variants = [variant]

    def phase(self, name: str) -> None:
        self.variants[0].log.append(f"phase {name}")

    def settle(self, seconds: float) -> None:
        self.variants[0].log.append(f"settle {seconds:g}")


def run(bench: Bench, workload: SdkSpec) -> Any:
    (measured,) = SERVER_SCENARIOS["sdk"](Group(bench), workload)  # type: ignore[arg-type]
    return measured


LOADED = [
    "phase populate", "populate", "phase persist", "wait-persisted", "reset", "sample before",
    "phase access", "start sampling", "client in step", "stop sampling", "sample now",
    "phase settle", "settle 1", "sample settled", "phase verify after load", "verify-load",
]  # fmt: skip
RESTARTED = ["phase restart", "engine restart", "phase verify after restart", "verify-restart"]


@pytest.mark.parametrize(
    ("restart", "persistent", "order"),
    [
        (False, True, LOADED),
        (True, True, LOADED + RESTARTED),
        (True, False, LOADED),  # nothing of an ephemeral bucket would be left
    ],
)
def test_its_order(restart: bool, persistent: bool, order: list[str]) -> None:
    bench = Bench(persistent=persistent)
    measured = run(bench, spec(restart=restart))
    assert bench.log == order
    verified = {"load": 1000, **({"restart": 1000} if "engine restart" in order else {})}
    assert measured.facts["contents"] == verified


def test_after_a_failover_everything_that_replicas_had_is_verified_again() -> None:
    bench = Bench(persistent=False)
    measured = run(bench, spec(failover=True))
    assert bench.log == [
        *LOADED, "phase failover", "wait-persisted", "failover", "phase verify after failover", "verify-failover",
    ]  # fmt: skip
    assert measured.facts["contents"] == {"load": 1000, "failover": 1000}
    assert measured.facts["failover"] == {"kind": "failover", "killed": "kv2"}


def test_its_metrics() -> None:
    measured = run(Bench(), spec())
    metrics = measured.metrics
    assert metrics["ops_per_s"] == 400  # of four processes
    assert metrics["latency_get_p50_us"] == 1.0
    assert metrics["latency_set_p99_us"] == 2.0
    assert metrics["server_cpu_us_per_op"] == pytest.approx(100)
    assert metrics["client_cpu_us_per_op"] == pytest.approx(4 * 0.5 * 1e6 / 1600)
    assert (metrics["errors"], metrics["verified_items"]) == (0, 1000)
    assert metrics["fragmentation_mapped"] == pytest.approx(37.5)
    assert [name for name in metrics if not is_metric(name)] == []
    assert [name for name in metrics if not spec().may_give(name)] == []
    assert measured.facts["sdk"] == {"couchbase": "4.6.3"}
    assert measured.facts["load_s"] == 3.0
    assert measured.facts["latency_ops"] == {"get": 8, "set": 8}
    assert measured.check.agrees


def test_errors_are_a_metric_and_facts_by_kind() -> None:
    measured = run(Bench(errors={"timeout": 1, "temporary_failure": 2}), spec())
    assert measured.metrics["errors"] == 12
    assert measured.facts["errors"] == {"timeout": 4, "temporary_failure": 8}
    assert measured.report.drive.error_count == 12, "what the limits look at"


def test_fixed_work_is_work_over_its_time() -> None:
    bench = Bench(seconds=2.0, series=[])
    measured = run(bench, spec(operations=1600))
    assert measured.metrics["ops_per_s"] == 800
    assert "ops_per_s_p90" not in measured.metrics
    assert all("--num-ops=400" in messages for messages in bench.messages["client"])


def test_what_its_processes_are_given() -> None:
    bench = Bench()
    run(bench, spec(value_size=[100, 200], set_share=30, durability="majority"))
    assert [messages[0] for messages in bench.messages["client"]] == ["access"] * 4
    assert set(bench.messages["client"][1][1:]) == {
        "--start-at=250", "--num-items=250", "--min-size=100", "--max-size=200", "--random-seed=11",
        "--versions=/w/versions-2", "--set-pct=30", "--duration=4", "--durability=majority",
    }  # fmt: skip
    assert all("--copies=2" in messages for messages in bench.messages["verify-load"])
    for phase in ("populate", "verify-load"):
        assert not [a for messages in bench.messages[phase] for a in messages if "durability" in a]
    keys = [[a for a in messages if a.startswith(("--start", "--num-items", "--random"))]
            for messages in bench.messages["client"]]  # fmt: skip
    for phase in ("populate", "verify-load"):
        for mine, messages in zip(keys, bench.messages[phase], strict=True):
            assert set(mine) <= set(messages), "every process knows its own keys"


@pytest.mark.parametrize("after", ["load", "restart", "failover"])
def test_a_document_that_is_not_as_written_fails_the_trial(after: str) -> None:
    text = f"after the {after}, 1 of 1000 documents are not as last written: sdk-000000000003: "
    with pytest.raises(TrialError, match=text):
        run(Bench(wrong=f"verify-{after}"), spec(restart=True, failover=True))


def test_documents_that_nobody_looked_at_fail_the_trial() -> None:
    with pytest.raises(TrialError, match="after the load, 1000 of 1001 documents were compared"):
        run(Bench(), spec(items=1001))


@pytest.mark.parametrize("text", ["", "{}", '{"tool":"sdk","schema":2,"verify":{}}', "[]"])
def test_a_verification_without_a_report_is_none(text: str) -> None:
    with pytest.raises(TrialError, match=r"verify-load\.json is not a report of a verification"):
        parse_verified(text, "verify-load.json")


def test_a_verification_is_read() -> None:
    text = json.dumps(
        {"tool": "sdk", "schema": 1, "verify": {"documents": 3, "wrong": 1, "examples": ["x"]}}
    )
    assert parse_verified(text, "f") == Verified(3, 1, ("x",))
