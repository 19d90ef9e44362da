"""Which programs a run takes from which build."""

from __future__ import annotations

from perfrunner.experiment.preflight.builds import (
    measured_programs,
    tool_programs,
    variant_programs,
    whole_programs,
)
from perfrunner.spec.model import Spec
from tests.unit.experiment.test_plan import a_spec

SERVED = {"s": {"type": "append", "items": 1}}
ALONE = {
    "t": {"type": "microbench", "program": "hash_table_bench"},
    "l": {"type": "latency"},
}


def of(workloads: dict[str, dict[str, object]]) -> Spec:
    document = a_spec().model_dump(mode="json")
    primary = ["HTB/Insert/threads:1"] if workloads is ALONE else ["ops_per_s"]
    return Spec.model_validate({**document, "workloads": workloads, "primary": primary})


def test_the_programs_that_are_measured() -> None:
    both = ("front_end_latency", "hash_table_bench", "kv_engine")
    assert measured_programs(of({**SERVED, **ALONE})) == both
    assert measured_programs(of(ALONE)) == both[:2]


def test_a_variant_has_what_is_measured_and_an_engine_to_be_asked() -> None:
    assert variant_programs(of(SERVED)) == ("kv_engine",)
    assert variant_programs(of(ALONE)) == ("front_end_latency", "hash_table_bench", "kv_engine")


def test_the_conductor_is_for_programs_that_run_alone() -> None:
    assert tool_programs(of(SERVED)) == ("append", "consistency_checker", "kvctl", "pillowfight")
    assert set(tool_programs(of(ALONE))) - set(tool_programs(of(SERVED))) == {"conductor"}


def test_a_variant_that_brings_the_tools_has_both() -> None:
    assert whole_programs(of(SERVED)) == (
        "append",
        "consistency_checker",
        "kv_engine",
        "kvctl",
        "pillowfight",
    )
    assert set(whole_programs(of(ALONE))) == {
        *variant_programs(of(ALONE)),
        *tool_programs(of(ALONE)),
    }
