"""The order of the trials: the properties that the statistics rest on."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from perfrunner.experiment.plan import draw_seed, make_plan, placing_order
from perfrunner.spec.model import Spec

GOLDEN = ["1e1", "1e2", "1e0", "1p2", "1p1", "1p0", "0e0", "0e2", "0e1", "0p0", "0p1", "0p2"]
SEEDS = st.integers(0, 2**63 - 1)


def a_spec(variants=3, workloads=2, buckets=2, blocks=6):
    names = [f"v{i}" for i in range(variants)]
    return Spec.model_validate(
        {
            "name": "plan",
            "cluster": {"name": "c", "transport": "local", "hosts": {"h": {}},
                        "engine_nodes": ["h"], "load_clients": ["h"]},
            "variants": {n: {"name": n, "allocator": {"name": "system"}} for n in names},
            "baseline": "v0",
            "buckets": ["persistent", "ephemeral"][:buckets],
            "workloads": {f"w{i}": {"type": "append", "items": 10} for i in range(workloads)},
            "blocks": blocks,
        }
    )  # fmt: skip


SPECS = st.builds(
    a_spec,
    variants=st.integers(1, 5),
    workloads=st.integers(1, 3),
    buckets=st.integers(1, 2),
    blocks=st.integers(1, 8),
)


@given(SPECS, SEEDS)
def test_each_block_holds_each_variant_of_each_case_once(spec, seed):
    plan = make_plan(spec, seed)
    variants = {(*case, variant): 1 for case in spec.cases for variant in spec.variants}
    for block in range(1, spec.blocks + 1):
        trials = [t for t in plan.trials if t.block == block]
        assert Counter((t.workload, t.bucket, t.variant) for t in trials) == variants
        assert [t.position for t in trials] == list(range(1, len(trials) + 1))
    assert len(plan.trials) == spec.blocks * len(variants)
    assert [t.block for t in plan.trials] == sorted(t.block for t in plan.trials)


@given(SPECS, SEEDS)
def test_the_same_seed_gives_the_same_order(spec, seed):
    first, again = make_plan(spec, seed), make_plan(spec, seed)
    assert first.trials == again.trials
    assert first.block(1, attempt=2) == again.block(1, attempt=2)


@given(SPECS, SEEDS)
def test_the_variants_of_a_case_follow_each_other(spec, seed):
    for block in range(1, spec.blocks + 1):
        cases = [(t.workload, t.bucket) for t in make_plan(spec, seed).block(block)]
        assert sorted(case for case, _ in groupby(cases)) == sorted(spec.cases)


@given(SEEDS, st.integers(1, 40), st.integers(1, 40))
def test_more_blocks_leave_the_others_as_they_were(seed, few, more):
    short = make_plan(a_spec(blocks=min(few, more)), seed).trials
    assert make_plan(a_spec(blocks=max(few, more)), seed).trials[: len(short)] == short


@given(SEEDS)
@settings(max_examples=30)
def test_orders_differ_between_blocks_seeds_and_attempts(seed):
    """72 trials' orders: that two blocks of 12 agree by chance has odds of 1 in 31104."""
    spec = a_spec(blocks=10)
    orders = {
        tuple((t.workload, t.bucket, t.variant) for t in make_plan(spec, seed).block(b))
        for b in range(1, 11)
    }
    assert len(orders) >= 9
    first = [t.variant for t in make_plan(spec, seed).trials]
    assert first != [t.variant for t in make_plan(spec, seed + 1).trials]
    assert [
        [t.variant for t in make_plan(spec, seed).block(b, attempt=2)] for b in range(1, 11)
    ] != [[t.variant for t in make_plan(spec, seed).block(b)] for b in range(1, 11)]


@given(SEEDS)
@settings(max_examples=30)
def test_each_case_has_permutations_of_its_own(seed):
    """Cases do not share an order: over 20 blocks, two cases that always agree would be no accident."""
    spec = a_spec(blocks=20)
    order = defaultdict(list)
    for trial in make_plan(spec, seed).trials:
        order[trial.workload, trial.bucket, trial.block].append(trial.variant)
    for single in spec.cases:
        for other in spec.cases:
            if single != other:
                same = sum(order[(*single, b)] == order[(*other, b)] for b in range(1, 21))
                assert same < 16


def test_every_order_of_three_variants_is_equally_likely():
    """Chi-squared over 6000 blocks, a fixed seed: 5 degrees of freedom, 20.5 is p = .001."""
    spec = a_spec(workloads=1, buckets=1)
    plan = make_plan(spec, 5)
    seen = Counter(tuple(t.variant for t in plan.block(b)) for b in range(6000))
    assert set(seen) == set(permutations(spec.variants))
    assert sum((n - 1000) ** 2 / 1000 for n in seen.values()) < 20.5


def test_the_order_is_the_same_in_every_release():
    """A recorded seed must give the recorded order indefinitely; these were drawn once."""
    trials = make_plan(a_spec(), 41).block(1)
    assert [f"{t.workload[1]}{t.bucket[0]}{t.variant[1]}" for t in trials] == GOLDEN


def test_drawn_seeds_differ():
    assert len({draw_seed() for _ in range(100)}) == 100


def test_no_variant_is_always_placed_first():
    variants = ["none", "share1", "share2"]
    orders = [placing_order(7, variants, block, 1) for block in range(1, 301)]
    assert all(sorted(order) == sorted(variants) for order in orders)
    for place in range(len(variants)):
        counted = Counter(order[place] for order in orders)
        assert min(counted.values()) > 70, counted


def test_a_resumed_run_places_as_the_killed_one_would_have():
    variants = ["a", "b", "c", "d"]
    assert placing_order(7, variants, 3, 1) == placing_order(7, reversed(variants), 3, 1)
    drawn = {tuple(placing_order(7, variants, 3, attempt)) for attempt in range(1, 20)}
    assert len(drawn) > 5, "a block that is repeated has other places"
