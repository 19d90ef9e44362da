"""Plan an experiment: the groups of variants, the random order of trials, and all seeds.

Each seed depends only on its own key, so a resumed run draws the same values as the killed run would have.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from perfrunner.build.layout import SEEDS
from perfrunner.domain import BlockCase, Case, Member, TrialKey
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import Schedule, ServerWorkload, ToolWorkload

GROUPINGS_FACT = "groupings"  # fact of an experiment: the grouping of each workload
USABLE = 0.8  # share of a host's available memory that a group may use
TOOL_BYTES = 256 * 2**20  # assumed memory of a benchmark program


@dataclass(frozen=True)
class Grouping:
    """The grouping of a workload: `group_size` variants are alive at the same time (1: each alone).

    `why` gives the reason if that is not all of them.
    """

    schedule: Schedule
    group_size: int
    why: str = ""

    @property
    def alone(self) -> bool:
        return self.schedule == "sequential"


def least_free(nodes: Iterable[Mapping[str, object]]) -> int | None:
    """Return the least available memory of all engine nodes; each of them runs an engine of every variant."""
    known = [node.get("memory_available_bytes") for node in nodes]
    return min((free for free in known if isinstance(free, int)), default=None)


def groupings(spec: Spec, free_bytes: int | None) -> dict[str, Grouping]:
    """Return the grouping of each workload. `free_bytes` is the available memory of an engine node, if known."""
    return {name: _grouping(spec, name, free_bytes) for name in spec.workloads}


def stored_groupings(facts: Mapping[str, Any]) -> dict[str, Grouping] | None:
    """Return the groupings stored with an experiment, if any."""
    stored = facts.get(GROUPINGS_FACT)
    if stored is None:
        return None
    return {name: Grouping(**record) for name, record in stored.items()}


def record_groupings(by_workload: Mapping[str, Grouping]) -> dict[str, Any]:
    """Return groupings in the form in which an experiment stores them."""
    return {name: asdict(grouping) for name, grouping in by_workload.items()}


def groups(order: Sequence[str], baseline: str, variants: int) -> list[tuple[str, ...]]:
    """Divide the variants into groups of at most `variants`, each with the baseline.

    The other variants are distributed evenly. The position of the baseline in a group follows from the order.
    """
    if len(order) <= variants or baseline not in order:
        return [tuple(order)]
    others = [name for name in order if name != baseline]
    count = -(-len(others) // (variants - 1))
    place = order.index(baseline)
    divided = []
    for n in range(count):
        group = others[len(others) * n // count : len(others) * (n + 1) // count]
        group.insert(min(place, len(group)), baseline)
        divided.append(tuple(group))
    return divided


def variant_bytes(spec: Spec, workload: str) -> int:
    """Estimate the peak memory of one variant: payload, metadata, checkpoints and allocator overhead.

    The estimate is high on purpose: too high a value costs another group, too low a value exhausts the host's memory.
    """
    chosen = spec.workloads[workload]
    if not isinstance(chosen, ServerWorkload):
        return TOOL_BYTES
    return 96 * 2**20 + min(chosen.item_bytes * chosen.items, spec.engine.quota_mb * 2**20) * 2


def _grouping(spec: Spec, workload: str, free_bytes: int | None) -> Grouping:
    variants = len(spec.variants)
    chosen = spec.workloads[workload]
    if chosen.why_alone:
        return Grouping("sequential", 1, chosen.why_alone)
    if spec.schedule_of(workload) == "sequential":
        return Grouping("sequential", 1, "the spec requires it")
    if len(spec.cluster.load_clients) > 1 and isinstance(chosen, ServerWorkload):
        return Grouping("sequential", 1, "slices of several load clients cannot be synchronized")
    fit, why = variants, ""
    if spec.limits.group_size is not None and spec.limits.group_size < fit:
        fit, why = spec.limits.group_size, f"limits.group_size is {spec.limits.group_size}"
    budget = spec.limits.memory
    if budget is None and free_bytes is not None:
        budget = int(free_bytes * USABLE)
    need = variant_bytes(spec, workload)
    if budget is not None and budget // need < fit:
        fit = budget // need
        why = f"a variant needs about {need / 1e9:.1f} GB, and {budget / 1e9:.1f} GB are available"
    if fit < 2 and variants > 1:
        return Grouping("sequential", 1, why)
    return Grouping("interleaved", min(variants, fit) if variants > 1 else 1, why)


T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment in random order. They follow from the spec, the seed and the groupings alone.

    Trials of a case with the same group run interleaved, in the order of their slots.
    """

    spec: Spec
    seed: int
    groupings: Mapping[str, Grouping]  # by workload

    @property
    def trials(self) -> tuple[TrialKey, ...]:
        """Return the trials of all blocks of the spec."""
        return self.first(self.spec.blocks)

    def first(self, blocks: int) -> tuple[TrialKey, ...]:
        """Return the trials of the first `blocks` blocks."""
        return tuple(trial for block in range(1, blocks + 1) for trial in self.block(block))

    def block(self, block: int, attempt: int = 1) -> tuple[TrialKey, ...]:
        """Return the trials of one block. A repeated attempt after a discarded one gets a new order."""
        spec = self.spec
        seeds = np.random.SeedSequence([self.seed, block, attempt])
        rng = np.random.Generator(np.random.PCG64(seeds))
        order = [
            (workload, bucket, variant, group)
            for workload, bucket in _shuffled(rng, spec.cases)
            for group, members in _groups(
                _shuffled(rng, tuple(spec.variants)), spec, self.groupings[workload]
            )
            for variant in members
        ]
        return tuple(
            TrialKey(block, attempt, position, workload, bucket, variant, group=group)
            for position, (workload, bucket, variant, group) in enumerate(order, start=1)
        )

    def redo_order(self, case: BlockCase, attempt: int) -> list[Member]:
        """Return the order of a case's variants in a repeated attempt."""
        order = self.block(case.block, attempt)
        return [trial.member for trial in order if trial.case == case.case]


def make_plan(spec: Spec, seed: int, stored: Mapping[str, Grouping] | None = None) -> Plan:
    """Plan an experiment; without stored groupings, memory does not limit the groups."""
    return Plan(spec, seed, groupings(spec, None) if stored is None else stored)


def cases_to_check(spec: Spec) -> list[Case]:
    """Return the cases that run on an engine; stand-alone programs are not sampled."""
    if not spec.sampling_check:
        return []
    return [case for case in spec.cases if not isinstance(spec.workloads[case[0]], ToolWorkload)]


def profiled_cases(spec: Spec) -> list[Case]:
    """Return the cases whose trials are recorded with perf."""
    return [case for case in spec.cases if spec.workloads[case.workload].profile is not None]


def draw_seed() -> int:
    """Draw a seed for a spec without one; it is recorded with the experiment."""
    return secrets.randbelow(2**32)


def _groups(
    order: Sequence[str], spec: Spec, grouping: Grouping
) -> list[tuple[int, Sequence[str]]]:
    if grouping.alone:
        return [(0, order)]
    return list(enumerate(groups(order, spec.baseline, grouping.group_size), start=1))


def _shuffled(rng: np.random.Generator, items: Sequence[T]) -> list[T]:
    keys = rng.bit_generator.random_raw(len(items))
    return [items[i] for i in np.argsort(keys, kind="stable")]


PADDING_MAX = 4096  # bytes; the size of the environment affects the placement of the stack


def workload_seed(seed: int, task: TrialKey) -> int:
    """Return the seed of keys and values: equal for all variants of a case in a block, different between blocks."""
    return _draw(f"{seed}/workload/{task.block}/{task.workload}/{task.bucket}") % 2**31


def round_seed(seed: int, task: TrialKey) -> int:
    """Return the seed of the permutations in a group's rounds."""
    key = f"{task.block}/{task.attempt}/{task.workload}/{task.bucket}/{task.group}"
    return _draw(f"{seed}/rounds/{key}") % 2**31


def padding_size(seed: int, task: TrialKey) -> int:
    """Return the size of the padding of a trial, 1 to PADDING_MAX bytes."""
    key = f"{seed}/padding/{task.block}/{task.attempt}/{task.workload}/{task.bucket}/{task.variant}"
    return 1 + _draw(key) % PADDING_MAX


def layout_seed(seed: int, shared: str, block: int, attempt: int) -> int:
    """Return the seed of the link order of programs: equal for all variants with the same `shared`."""
    return SEEDS.start + _draw(f"{seed}/layout/{block}/{attempt}/{shared}") % len(SEEDS)


def placing_order(seed: int, variants: Iterable[str], block: int, attempt: int) -> list[str]:
    """Return a random order in which the relinked programs of a block are deployed to the hosts."""
    return sorted(variants, key=lambda name: _draw(f"{seed}/placing/{block}/{attempt}/{name}"))


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
