"""How the arms of a cell's block run: all alive side by side, in groups that each hold the baseline, or alone.

Side by side is the rule, for neighbouring milliseconds of a host are alike and neighbouring seconds are not
(docs/reports.md). What keeps arms apart is said beforehand, by `plan` and in the report: the spec asks for it, the
workload cannot take turns, there are several load clients (slices would not be in step), or not even two arms fit into
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import Schedule, ServerWorkload

FACT = "layouts"  # of an experiment: how each of its workloads was laid out
USABLE = 0.8  # of the memory that a host has available
TOOL_BYTES = 256 * 2**20  # what a benchmark program is taken to need


@dataclass(frozen=True)
class Layout:
    """Of a workload: `arms` alive at once (1: each alone), and `why` where that is not all of them."""

    schedule: Schedule
    arms: int
    why: str = ""

    @property
    def alone(self) -> bool:
        return self.schedule == "sequential"


def least_free(nodes: Iterable[Mapping[str, object]]) -> int | None:
    """Available memory of the engine node that has least: each holds an engine of every arm."""
    known = [node.get("memory_available_bytes") for node in nodes]
    return min((free for free in known if isinstance(free, int)), default=None)


def layouts(spec: Spec, free_bytes: int | None) -> dict[str, Layout]:
    """By workload. `free_bytes`: an engine node's available memory, None where it is not known."""
    return {name: _layout(spec, name, free_bytes) for name in spec.workloads}


def stored_layouts(facts: Mapping[str, Any]) -> dict[str, Layout] | None:
    """Those that an experiment was begun with; None when it keeps none."""
    found = facts.get(FACT)
    return None if found is None else {name: Layout(**record) for name, record in found.items()}


def record_layouts(laid_out: Mapping[str, Layout]) -> dict[str, Any]:
    """As an experiment keeps them."""
    return {name: asdict(layout) for name, layout in laid_out.items()}


def groups(order: Sequence[str], baseline: str, arms: int) -> list[tuple[str, ...]]:
    """The arms in their order, at most `arms` alive at once, the baseline in each group.

    The groups share the others evenly; the baseline's place among them is the one that the order gave it.
    """
    if len(order) <= arms or baseline not in order:
        return [tuple(order)]
    others = [name for name in order if name != baseline]
    count = -(-len(others) // (arms - 1))
    place = order.index(baseline)
    found = []
    for n in range(count):
        group = others[len(others) * n // count : len(others) * (n + 1) // count]
        group.insert(min(place, len(group)), baseline)
        found.append(tuple(group))
    return found


def arm_bytes(spec: Spec, workload: str) -> int:
    """About what one arm needs at its peak: payload, what an item costs beside it, checkpoints, the allocator's slack.

    Guessed high: too large a guess costs a group more, too small a one the host's memory.
    """
    chosen = spec.workloads[workload]
    if not isinstance(chosen, ServerWorkload):
        return TOOL_BYTES
    return 96 * 2**20 + min(chosen.item_bytes * chosen.items, spec.engine.quota_mb * 2**20) * 2


def _layout(spec: Spec, workload: str, free_bytes: int | None) -> Layout:
    arms = len(spec.variants)
    chosen = spec.workloads[workload]
    if chosen.why_alone:
        return Layout("sequential", 1, chosen.why_alone)
    if spec.schedule_of(workload) == "sequential":
        return Layout("sequential", 1, "the spec asks for it")
    if len(spec.cluster.load_clients) > 1 and isinstance(chosen, ServerWorkload):
        return Layout("sequential", 1, "slices of several load clients would not be in step")
    fit, why = arms, ""
    if spec.limits.arms is not None and spec.limits.arms < fit:
        fit, why = spec.limits.arms, f"limits.arms is {spec.limits.arms}"
    budget = spec.limits.memory
    if budget is None and free_bytes is not None:
        budget = int(free_bytes * USABLE)
    need = arm_bytes(spec, workload)
    if budget is not None and budget // need < fit:
        fit = budget // need
        why = f"an arm needs some {need / 1e9:.1f} GB and {budget / 1e9:.1f} GB may be used"
    if fit < 2 and arms > 1:
        return Layout("sequential", 1, why)
    return Layout("side-by-side", min(arms, fit) if arms > 1 else 1, why)
