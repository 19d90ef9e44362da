"""Format the cells of the tables in docs/explanation/accuracy.md: effects, facts, days and hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfrunner.analysis.model import Effect
from perfrunner.report.numbers import change, minus, scale_of, significant
from perfrunner.spec.metrics import metric_type
from tools.evidence.kept import Comparison


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def change_text(effect: Effect | None, metric: str) -> str:
    if effect is None:
        return "none"
    if effect.kind == "ratio" and effect.ci95 is not None:
        low, high = (f"{100 * (bound - 1):+.2f}" for bound in effect.ci95)
        return minus(f"{100 * (effect.estimate - 1):+.2f} % [{low}, {high}]")
    kind = metric_type(metric)
    return change(effect, kind, scale_of(kind, effect.estimate))


def percent(ratio: float) -> str:
    return minus(f"{100 * (ratio - 1):+.2f} %")


def fact_of(comparison: Comparison, key: str) -> Any:
    """Return a fact of a comparison, or its bucket."""
    return comparison.bucket if key == "bucket" else comparison.facts.get(key, "")


def slice_text(comparison: Comparison) -> str:
    """Return the length of a comparison's slices: `2 ms`."""
    return f"{1000 * float(fact_of(comparison, 'slice_s')):g} ms"


def shown(value: Any, key: str) -> str:
    return f"{value:g} s" if key == "load_s" else str(value)


def when(comparisons: Sequence[Comparison]) -> str:
    """Return the days of measurement, and the other load of the host."""
    days = sorted(
        {
            str(comparison.facts["began"])[:10]
            for comparison in comparisons
            if "began" in comparison.facts
        }
    )
    busy = [
        float(comparison.facts["busy"]) for comparison in comparisons if "busy" in comparison.facts
    ]
    words = []
    if days:
        words.append(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}")
    if busy:
        words.append(f"(load average before an experiment {min(busy):.1f} to {max(busy):.1f})")
    return " ".join(words)


def host_text(host: dict[str, Any] | Any) -> str:
    words = [str(host.get("cpu_model", "an unnamed CPU"))]
    if "cpus" in host:
        words.append(f"{host['cpus']} CPUs")
    if "memory_bytes" in host:
        words.append(f"{significant(host['memory_bytes'] / 1e9, 2)} GB")
    if "kernel" in host:
        words.append(f"Linux {host['kernel']}")
    if host.get("virtualization"):
        words.append(
            "a virtual machine"
            if "Virtual" in str(host["virtualization"])
            else str(host["virtualization"])
        )
    return ", ".join(words)
