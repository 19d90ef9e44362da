"""How arms are laid out: all side by side, in groups with the baseline, alone; and why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfrunner.run.plan.ensembles import (
    Layout,
    arm_bytes,
    groups,
    layouts,
    least_free,
    record_layouts,
    stored_layouts,
)
from perfrunner.run.plan.order import plan_block
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import MicrobenchSpec
from tests.unit.run.test_plan import a_spec

GB = 10**9


@given(st.integers(1, 12), st.integers(2, 12), st.randoms())
def test_every_arm_is_in_one_group_and_the_baseline_in_each(count: int, arms: int, random) -> None:
    order = [f"v{n}" for n in range(count)]
    random.shuffle(order)
    found = groups(order, "v0", arms)
    assert all(len(group) <= max(arms, 1) for group in found)
    assert all("v0" in group for group in found)
    others = sorted(name for group in found for name in group if name != "v0")
    assert others == sorted(set(order) - {"v0"})
    assert max(map(len, found)) - min(map(len, found)) <= 1


def with_limits(**limits: object) -> Spec:
    spec = a_spec()
    return spec.model_copy(update={"limits": spec.limits.model_copy(update=limits)})


def test_side_by_side_is_the_rule() -> None:
    spec = a_spec()
    assert set(layouts(spec, None).values()) == {Layout("side-by-side", len(spec.variants))}
    trials = plan_block(spec, 1, 1)
    assert {trial.ensemble for trial in trials} == {1}


def test_the_spec_or_a_workload_may_ask_for_one_at_a_time() -> None:
    spec = a_spec().model_copy(update={"schedule": "sequential"})
    assert {layout.schedule for layout in layouts(spec, None).values()} == {"sequential"}
    name = next(iter(spec.workloads))
    own = spec.workloads[name].model_copy(update={"schedule": "side-by-side"})
    mixed = spec.model_copy(update={"workloads": {**spec.workloads, name: own}})
    assert layouts(mixed, None)[name].schedule == "side-by-side"


def test_several_load_clients_have_one_arm_at_a_time_and_say_why() -> None:
    """A program's arms need no client, so they stay side by side."""
    spec = a_spec()
    several = spec.cluster.model_copy(update={"load_clients": ("h", "h2")})
    tool = MicrobenchSpec.model_validate({"type": "microbench", "program": "checkpoint_bench"})
    changes = {"cluster": several, "workloads": {**spec.workloads, "bench": tool}}
    found = layouts(spec.model_copy(update=changes), None)
    assert found.pop("bench").schedule == "side-by-side"
    assert set(found) == set(spec.workloads)
    why = "slices of several load clients would not be in step"
    assert set(found.values()) == {Layout("sequential", 1, why)}


def test_what_does_not_fit_is_divided_and_says_why() -> None:
    spec = a_spec()
    name = next(iter(spec.workloads))
    need, arms = arm_bytes(spec, name), len(spec.variants)
    assert layouts(spec, 100 * GB)[name] == Layout("side-by-side", arms)
    tight = layouts(spec, int(need * (arms - 1) / 0.8) + 1)[name]
    assert (tight.schedule, tight.arms) == ("side-by-side", arms - 1)
    assert "an arm needs" in tight.why
    alone = layouts(spec, need)[name]
    assert (alone.alone, alone.arms) == (True, 1)
    assert layouts(with_limits(arms=2), None)[name] == Layout("side-by-side", 2, "limits.arms is 2")
    assert layouts(with_limits(memory=need), 100 * GB)[name].alone


def test_a_layout_comes_back_from_the_store() -> None:
    laid_out = layouts(with_limits(arms=2), None)
    assert stored_layouts({"layouts": record_layouts(laid_out)}) == laid_out
    assert stored_layouts({}) is None


def test_the_engine_node_with_the_least_memory_says_what_fits() -> None:
    known = [{"memory_available_bytes": 64 * GB}, {}, {"memory_available_bytes": 2 * GB}]
    assert least_free(known) == 2 * GB
    assert least_free([{}]) is None
