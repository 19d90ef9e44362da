"""Sets of CPUs: what a spec may write, and how the kernel writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.spec.units import cpu_list, cpu_numbers, parse_cpus


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        (0, "0"),
        ([2, 0], "0,2"),
        ("0-3,8", "0-3,8"),
        ("3, 1,2", "1-3"),
        (" 0 - 3 , 8 ", "0-3,8"),
        ("auto", "auto"),
        ("any", "any"),
    ],
)
def test_what_a_spec_may_write(written: object, parsed: str) -> None:
    assert parse_cpus(written) == parsed


@pytest.mark.parametrize(
    "written",
    [
        -1,
        [],
        [True],
        "",
        "3-1",
        "a",
        "1,",
        None,
        1.5,
        "0 3",
        "1- 2 3",
        "\N{ARABIC-INDIC DIGIT THREE}",
        100_000,
        [0, 2**63],
    ],
)
def test_what_it_may_not(written: object) -> None:
    with pytest.raises(ValueError, match="expected CPUs"):
        parse_cpus(written)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_list_and_its_numbers(numbers: set[int]) -> None:
    assert set(cpu_numbers(cpu_list(numbers))) == numbers
