"""How variants are laid out: all side by side, in groups with the baseline, alone; and why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfrunner.experiment.plan import (
    Grouping,
    groupings,
    groups,
    least_free,
    make_plan,
    record_groupings,
    stored_groupings,
    variant_bytes,
)
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import MicrobenchSpec
from tests.unit.experiment.test_plan import a_spec

GB = 10**9


@given(st.integers(1, 12), st.integers(2, 12), st.randoms())
def test_every_variant_is_in_one_group_and_the_baseline_in_each(
    count: int, variants: int, random
) -> None:
    order = [f"v{n}" for n in range(count)]
    random.shuffle(order)
    results = groups(order, "v0", variants)
    assert all(len(group) <= max(variants, 1) for group in results)
    assert all("v0" in group for group in results)
    others = sorted(name for group in results for name in group if name != "v0")
    assert others == sorted(set(order) - {"v0"})
    assert max(map(len, results)) - min(map(len, results)) <= 1


def with_limits(**limits: object) -> Spec:
    spec = a_spec()
    return spec.model_copy(update={"limits": spec.limits.model_copy(update=limits)})


def test_side_by_side_is_the_rule() -> None:
    spec = a_spec()
    assert set(groupings(spec, None).values()) == {Grouping("interleaved", len(spec.variants))}
    trials = make_plan(spec, 1).block(1)
    assert {trial.group for trial in trials} == {1}


def test_the_spec_or_a_workload_may_ask_for_one_at_a_time() -> None:
    spec = a_spec().model_copy(update={"schedule": "sequential"})
    assert {grouping.schedule for grouping in groupings(spec, None).values()} == {"sequential"}
    name = next(iter(spec.workloads))
    own = spec.workloads[name].model_copy(update={"schedule": "interleaved"})
    mixed = spec.model_copy(update={"workloads": {**spec.workloads, name: own}})
    assert groupings(mixed, None)[name].schedule == "interleaved"


def test_several_load_clients_have_one_variant_at_a_time_and_say_why() -> None:
    """A program's variants need no client, so they stay side by side."""
    spec = a_spec()
    several = spec.cluster.model_copy(update={"load_clients": ("h", "h2")})
    tool = MicrobenchSpec.model_validate({"type": "microbench", "program": "checkpoint_bench"})
    changes = {"cluster": several, "workloads": {**spec.workloads, "bench": tool}}
    results = groupings(spec.model_copy(update=changes), None)
    assert results.pop("bench").schedule == "interleaved"
    assert set(results) == set(spec.workloads)
    why = "slices of several load clients cannot be synchronized"
    assert set(results.values()) == {Grouping("sequential", 1, why)}


def test_what_does_not_fit_is_divided_and_says_why() -> None:
    spec = a_spec()
    name = next(iter(spec.workloads))
    need, variants = variant_bytes(spec, name), len(spec.variants)
    assert groupings(spec, 100 * GB)[name] == Grouping("interleaved", variants)
    tight = groupings(spec, int(need * (variants - 1) / 0.8) + 1)[name]
    assert (tight.schedule, tight.group_size) == ("interleaved", variants - 1)
    assert "a variant needs" in tight.why
    alone = groupings(spec, need)[name]
    assert (alone.alone, alone.group_size) == (True, 1)
    assert groupings(with_limits(group_size=2), None)[name] == Grouping(
        "interleaved", 2, "limits.group_size is 2"
    )
    assert groupings(with_limits(memory=need), 100 * GB)[name].alone


def test_a_layout_comes_back_from_the_store() -> None:
    known = groupings(with_limits(group_size=2), None)
    assert stored_groupings({"groupings": record_groupings(known)}) == known
    assert stored_groupings({}) is None


def test_the_engine_node_with_the_least_memory_says_what_fits() -> None:
    known = [{"memory_available_bytes": 64 * GB}, {}, {"memory_available_bytes": 2 * GB}]
    assert least_free(known) == 2 * GB
    assert least_free([{}]) is None
