"""docs/reference/metrics.md tells every metric as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.spec.metrics import COUNTERS, METRICS

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def table_lines(name):
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("|")]
    return [row for row in rows if f"`{name}`" in row.split("|")[1]]


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda m: m.id)
def test_every_metric_is_documented_as_it_is(metric):
    (line,) = table_lines(metric.id)
    _, _, unit, better, effect, *_ = (part.strip() for part in line.split("|"))
    assert unit == metric.unit
    assert better == metric.direction
    assert effect.split(" ")[0] == metric.effect
    if metric.effect == "difference":
        value = metric.default_margin
        assert ("2 MiB" if value == 2 * 2**20 else f"{value:g}") in effect


@pytest.mark.parametrize("counter", COUNTERS)
def test_every_counter_of_a_micro_benchmark_is_documented(counter):
    (line,) = table_lines(counter)
    _, _, unit, better, effect, *_ = (part.strip() for part in line.split("|"))
    kind = COUNTERS[counter]
    assert (unit, better, effect.split(" ")[0].rstrip(":")) == (
        kind.unit,
        kind.direction,
        kind.effect,
    )
