"""`--fail-on worse`."""

from __future__ import annotations

import pytest

from perfrunner.cli.gate import failing


def row(**changes):
    values = {
        "variant": "je", "workload": "pf", "bucket": "persistent", "metric": "ops_per_s", "primary": True,
        "verdict": "worse", "effect": "ratio", "estimate": 0.95, "margin": 0.01,
    }  # fmt: skip
    return {**values, **changes}


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({}, True),
        ({"primary": False}, False),
        ({"verdict": "unsure"}, False),
        ({"verdict": None}, False),
        ({"verdict": "better", "estimate": 1.05}, False),
        ({"estimate": 0.995}, False),
        ({"effect": "difference", "estimate": 2.0, "margin": 1.0}, True),
        ({"effect": "difference", "estimate": -0.5, "margin": 1.0}, False),
        ({"estimate": None}, False),
    ],
)
def test_only_a_primary_change_beyond_its_margin_fails(changes, fails):
    assert bool(failing({"results": [row(**changes)]}, "worse")) is fails


def test_without_the_option_nothing_fails():
    assert failing({"results": [row()]}, None) == []


def test_the_line_names_the_row():
    assert failing({"results": [row()]}, "worse") == ["je pf persistent ops_per_s is worse"]
