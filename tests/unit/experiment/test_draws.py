"""What is drawn for a block favours no variant, and is drawn alike by a resumed run."""

from __future__ import annotations

from collections import Counter

from perfrunner.experiment.plan import placing_order


def test_no_variant_is_always_placed_first() -> None:
    variants = ["none", "share1", "share2"]
    orders = [placing_order(7, variants, block, 1) for block in range(1, 301)]
    assert all(sorted(order) == sorted(variants) for order in orders)
    for place in range(len(variants)):
        counted = Counter(order[place] for order in orders)
        assert min(counted.values()) > 70, counted


def test_a_resumed_run_places_as_the_killed_one_would_have() -> None:
    variants = ["a", "b", "c", "d"]
    assert placing_order(7, variants, 3, 1) == placing_order(7, reversed(variants), 3, 1)
    drawn = {tuple(placing_order(7, variants, 3, attempt)) for attempt in range(1, 20)}
    assert len(drawn) > 5, "a block that is done again is placed anew"
