from __future__ import annotations

import numpy as np
import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.slices import Slices, paired_levels, read_slices


def slices(*ops: int) -> Slices:
    """Slices of 1 ms each."""
    n = len(ops)
    return Slices(
        start_ns=np.arange(n) * 2_000_000,
        wall_ns=np.full(n, 1_000_000),
        ops=np.array(ops),
        client_cpu_ns=np.full(n, 500_000),
        position=np.zeros(n, dtype=np.int64),
    )


def test_a_round_in_which_a_variant_was_not_answered_says_nothing_of_the_others() -> None:
    base = slices(100, 100, 1000, 100)
    other = slices(110, 110, 0, 110)
    assert paired_levels([base, other], 0) == pytest.approx([100e3, 110e3])
    assert paired_levels([other, base], 1) == pytest.approx([110e3, 100e3])
    assert other.slow_share == 0.25, "it is a slow slice all the same"


def test_a_load_that_no_round_was_answered_in_is_no_measurement() -> None:
    with pytest.raises(TrialError, match="none of the 2 rounds"):
        paired_levels([slices(0, 100), slices(100, 0)], 0)


def test_slices_survive_being_kept_and_read() -> None:
    kept = slices(3, 0, 5).document()
    assert read_slices(kept, "here").ops.tolist() == [3, 0, 5]


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"ops": [1, -1]}, "a negative number of operations"),
        ({"wall_ns": [1, 0]}, "no duration"),
        ({"ops": [1]}, "different lengths"),
        ({"ops": None}, "`ops` is missing"),
        ({"position": 3}, "not a list of numbers"),
    ],
)
def test_arrays_that_fit_no_slices_are_refused(changes: dict[str, object], output: str) -> None:
    with pytest.raises(TrialError, match=output):
        read_slices({**slices(1, 2).document(), **changes}, "here")
