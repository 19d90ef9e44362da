"""Shares, differences and the tree of callers of two profiles."""

from __future__ import annotations

import numpy as np
import pytest

from perfrunner.measure.cpu_profile import Folded
from perfrunner.report.profiles import Frame, by_chance, frames, most_moved, self_shares

BASE = Folded({("t", "run", "lock"): 30, ("t", "run"): 10, ("t", "run", "set", "lock"): 60})
VARIANT = Folded({("t", "run", "lock"): 1, ("t", "run"): 2, ("t", "run", "set"): 1})


def test_own_shares_are_of_the_innermost_function_whatever_called_it() -> None:
    assert self_shares(BASE) == {"lock": 0.9, "run": 0.1}
    assert self_shares(Folded({})) == {}


def test_shares_are_compared_not_counts_the_largest_move_first() -> None:
    moved = most_moved(BASE, VARIANT)
    assert [(s.function, s.base, s.variant) for s in moved] == [
        ("lock", 0.9, 0.25),
        ("run", 0.1, 0.5),
        ("set", 0.0, 0.25),
    ]
    assert [s.difference for s in moved] == pytest.approx([-0.65, 0.4, 0.25])
    assert [s.function for s in most_moved(BASE, VARIANT, most=1)] == ["lock"]
    assert most_moved(BASE, Folded({s: 7 * n for s, n in BASE.counts.items()})) == ()


def test_equal_moves_are_in_the_order_of_their_names() -> None:
    moved = most_moved(Folded({("b",): 1, ("c",): 1}), Folded({("a",): 1, ("c",): 1}))
    assert [s.function for s in moved] == ["a", "b"]


def test_luck_is_what_two_binomial_counts_differ_by() -> None:
    rng = np.random.default_rng(3)
    base, variant = (rng.binomial(n, 0.1, 20_000) / n for n in (400, 900))
    beyond = np.mean(np.abs(variant - base) > by_chance(400, 900, 0.1))
    assert beyond == pytest.approx(0.05, abs=0.006)


def test_a_frame_has_the_share_of_all_that_it_calls() -> None:
    root = frames(BASE, VARIANT)
    assert (root.base, root.variant) == pytest.approx((1.0, 1.0))
    run = root.callees["t"].callees["run"]
    assert (run.base, run.variant) == pytest.approx((1.0, 1.0))
    taken = run.callees["set"]
    assert (taken.base, taken.variant, taken.width, taken.difference) == pytest.approx(
        (0.6, 0.25, 0.425, -0.35)
    )
    assert taken.callees["lock"].variant == 0.0, "only the baseline has it"


def test_callees_never_exceed_their_caller() -> None:
    def check(frame: Frame) -> None:
        assert sum(c.width for c in frame.callees.values()) <= frame.width + 1e-12
        for callee in frame.callees.values():
            check(callee)

    check(frames(BASE, VARIANT))


def test_a_profile_next_to_itself_differs_nowhere() -> None:
    root = frames(BASE, BASE)
    assert root.width == pytest.approx(1.0)
    assert root.callees["t"].callees["run"].callees["lock"].difference == 0.0


def test_no_samples_are_no_shares() -> None:
    root = frames(Folded({}), VARIANT)
    assert (root.base, root.variant) == pytest.approx((0.0, 1.0))
