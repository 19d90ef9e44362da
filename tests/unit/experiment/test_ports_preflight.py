"""Which ports a spec's engines need on each node."""

from __future__ import annotations

from typing import Any

import pytest

from perfrunner.experiment.preflight.requirements import named_ports
from perfrunner.spec.model import Spec
from tests.unit.experiment.test_plan import a_spec

TOOL = {"workloads": {"l": {"type": "latency"}}, "primary": ["Latency/Add/p50_us"]}


@pytest.mark.parametrize(
    ("changes", "ports"),
    [
        ({}, []),
        ({"engine": {"port": 7000}}, [7000, 7001, 7002]),
        ({"engine": {"port": 7000}, "limits": {"group_size": 2}}, [7000, 7001]),
        ({"engine": {"port": 7000}, "schedule": "sequential"}, [7000]),
        ({"engine": {"port": 7000}, **TOOL}, []),
    ],
)
def test_as_many_as_engines_may_be_alive(changes: dict[str, Any], ports: list[int]) -> None:
    document = {**a_spec(variants=3, workloads=1).model_dump(), **changes}
    assert list(named_ports(Spec.model_validate(document))) == ports
