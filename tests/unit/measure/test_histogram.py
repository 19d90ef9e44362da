from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.errors import TrialError
from perfrunner.measure.client import EMPTY, Histogram, merge_histograms

BUCKETS = st.dictionaries(st.integers(1, 10**9), st.integers(1, 1000), min_size=1, max_size=20)


def of(counts: dict[int, int]) -> Histogram:
    return Histogram(tuple(sorted(counts.items())), max(counts))


def test_percentiles_are_the_smallest_value_that_covers_the_share() -> None:
    histogram = of({10: 50, 20: 45, 30: 4, 40: 1})
    assert [histogram.percentile_ns(p) for p in (1, 50, 50.1, 95, 99, 99.9, 100)] == [
        10, 10, 20, 20, 30, 40, 40,
    ]  # fmt: skip


def test_an_empty_histogram_has_no_percentile() -> None:
    assert EMPTY.percentile_ns(50) is None


def test_merging_is_not_averaging() -> None:
    fast, slow = of({10: 99}), of({1000: 1})
    merged = merge_histograms([fast, slow])
    assert merged.percentile_ns(99) == 10  # the average of the two p99 would be 505
    assert merged.percentile_ns(99.9) == 1000


@given(st.lists(BUCKETS, min_size=1, max_size=5))
def test_a_merge_is_the_histogram_of_all_values(parts: list[dict[int, int]]) -> None:
    together: dict[int, int] = {}
    for part in parts:
        for value, n in part.items():
            together[value] = together.get(value, 0) + n
    merged = merge_histograms(of(part) for part in parts)
    assert merged.buckets == of(together).buckets
    assert merged.max_ns == max(together)


def test_buckets_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(TrialError, match=r"buckets hold 3 values, but `count` is 4"):
        Histogram.parse({"count": 4, "mean": 1, "max": 5, "buckets": [[5, 3]]}, "x.json")


@pytest.mark.parametrize("document", [{}, {"count": 1, "mean": 1, "max": 1, "buckets": [5]}, []])
def test_nonsense_is_a_trial_error_that_names_the_file(document: object) -> None:
    with pytest.raises(TrialError, match=r"x\.json: not a histogram"):
        Histogram.parse(document, "x.json")  # type: ignore[arg-type]
