from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perfrunner.measure.slices import DEFAULT_TRIM, levels, trimmed_mean


def test_what_a_round_has_in_common_does_not_reach_the_ratio() -> None:
    rng = np.random.default_rng(1)
    machine = np.exp(0.5 * rng.standard_normal(40).cumsum())  # drifts by orders of magnitude
    rates = machine[:, np.newaxis] * np.array([100.0, 103.0, 98.0])
    results = levels(rates, baseline=0)
    assert results / results[0] == pytest.approx([1.0, 1.03, 0.98])
    assert results[0] == pytest.approx(100 * math.exp(_trimmed(np.log(machine))))


def test_rare_slow_slices_do_not_move_a_level() -> None:
    rates = np.full((20, 2), [10.0, 11.0])
    rates[3, 1] = 0.01  # the host took the CPU
    rates[7, 0] = 0.02
    assert levels(rates, baseline=0) == pytest.approx([10.0, 11.0])
    assert levels(rates, baseline=0, trim=0.0)[1] != pytest.approx(11.0, rel=0.1)


def test_the_baseline_may_be_any_column() -> None:
    rates = np.array([[1.0, 2.0, 4.0], [10.0, 20.0, 40.0]])
    assert levels(rates, baseline=2) == pytest.approx(
        [math.sqrt(10.0), math.sqrt(40.0), math.sqrt(160.0)]
    )


@given(
    st.integers(1, 12).flatmap(
        lambda rounds: st.lists(
            st.lists(st.floats(1e-6, 1e9), min_size=3, max_size=3),
            min_size=rounds,
            max_size=rounds,
        )
    ),
    st.permutations([0, 1, 2]),
)
def test_neither_the_order_of_rounds_nor_of_columns_matters(
    rows: list[list[float]], order: list[int]
) -> None:
    rates = np.array(rows)
    straight = levels(rates, baseline=0)
    assert levels(rates[::-1], baseline=0) == pytest.approx(straight)
    assert levels(rates[:, order], baseline=order.index(0)) == pytest.approx(straight[order])


@given(st.integers(1, 60), st.floats(0, 0.499), st.integers(0, 9))
def test_the_trimmed_mean_is_scipys(rounds: int, trim: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(rounds, 3))
    assert trimmed_mean(rows, trim) == pytest.approx(stats.trim_mean(rows, trim, axis=0))


@pytest.mark.parametrize(
    ("rates", "baseline", "trim", "output"),
    [
        ([[1.0, 0.0]], 0, 0.2, "yielded nothing"),
        ([[1.0, math.nan]], 0, 0.2, "yielded nothing"),
        ([[1.0, 1.0]], 2, 0.2, "none of 2 variants"),
        ([[1.0, 1.0]], -1, 0.2, "none of 2 variants"),
        ([[1.0, 1.0]], 0, 0.5, "less than 0.5"),
        ([1.0, 1.0], 0, 0.2, "shape"),
        (np.empty((0, 2)), 0, 0.2, "shape"),
    ],
)
def test_what_is_no_table_of_rates_is_refused(
    rates: Any, baseline: int, trim: float, output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        levels(np.asarray(rates), baseline, trim)


def _trimmed(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    cut = int(DEFAULT_TRIM * len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())
