"""Plan an experiment: the groups of variants, the random order of trials, all seeds, and the number of blocks.

Each seed depends only on its own key, so a resumed run draws the same values as the killed run would have. `precision`
in a spec ends or extends a case by the widths of its intervals alone: `case_widths` and `decide`.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfrunner.build.layout import SEEDS
from perfrunner.domain import Case, TrialKey
from perfrunner.experiment.events import Decision, Precision
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import Schedule, ServerWorkload, ToolWorkload

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData


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


def record_groupings(laid_out: Mapping[str, Grouping]) -> dict[str, Any]:
    """Return groupings in the form in which an experiment stores them."""
    return {name: asdict(grouping) for name, grouping in laid_out.items()}


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
    """The trials of an experiment in random order, and the seed of that order.

    Trials of a case with the same group run interleaved, in the order of their slots.
    """

    seed: int
    blocks: int
    trials: tuple[TrialKey, ...]


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


def make_plan(spec: Spec, seed: int, laid_out: Mapping[str, Grouping] | None = None) -> Plan:
    """Plan all blocks of the spec."""
    known = groupings(spec, None) if laid_out is None else laid_out
    blocks = range(1, spec.blocks + 1)
    trials = [t for block in blocks for t in plan_block(spec, seed, block, laid_out=known)]
    return Plan(seed=seed, blocks=spec.blocks, trials=tuple(trials))


def plan_block(
    spec: Spec,
    seed: int,
    block: int,
    attempt: int = 1,
    *,
    laid_out: Mapping[str, Grouping] | None = None,
) -> tuple[TrialKey, ...]:
    """Plan one block. A repeated attempt (`attempt` > 1) after a discarded one gets a new order.

    `laid_out` are the groupings by workload; without them, memory does not limit the groups.
    """
    known = groupings(spec, None) if laid_out is None else laid_out
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, block, attempt])))
    order = [
        (workload, bucket, variant, group)
        for workload, bucket in _shuffled(rng, spec.cases)
        for group, members in _groups(_shuffled(rng, tuple(spec.variants)), spec, known[workload])
        for variant in members
    ]
    return tuple(
        TrialKey(block, attempt, position, workload, bucket, variant, group=group)
        for position, (workload, bucket, variant, group) in enumerate(order, start=1)
    )


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


FEWEST_BLOCKS = 10
MOST_BLOCKS = 40


@dataclass(frozen=True)
class Width:
    """The precision that a case has reached: clean blocks, and the widest half-width of its primary metrics.

    The half-width is a fraction of the baseline for ratios, and of 100 for differences of percentages (0.01 = 1
    point). None means that it is not known yet.
    """

    blocks: int
    half_width: float | None

    def expected_blocks(self, wanted: float, fewest: int = FEWEST_BLOCKS) -> int:
        """Estimate the total number of clean blocks, at least `fewest`, until the half-width is `wanted`.

        Assumes that later blocks vary as much as earlier ones. Half-widths shrink with the square root of the number of
        blocks and with Student's t, which is 12.7 for two blocks and 2.3 for ten.
        """
        if self.half_width is None or self.blocks < 2:
            return fewest
        from perfrunner.analysis.inference import t_critical
        from perfrunner.analysis.looks import PRECISE

        counts = np.arange(fewest, MOST_BLOCKS)
        t = t_critical(PRECISE / 2, np.array([self.blocks, *counts]) - 1)
        spread = self.half_width * math.sqrt(self.blocks) / t[0]
        narrow = counts[t[1:] * spread / np.sqrt(counts) <= wanted]
        return int(narrow[0]) if len(narrow) else MOST_BLOCKS


def case_widths(data: ExperimentData) -> dict[Case, Width]:
    """Return the width of every case that has a primary metric with a relative interval.

    Differences in bytes or pages have no relative interval. The interval is the one that the report shows if the case
    stops: it is wider than that of a planned number of blocks, because a case tends to stop while its spread looks
    small, and wider still after an extension.
    """
    from perfrunner.analysis.compare import compare
    from perfrunner.analysis.inference import t_critical
    from perfrunner.analysis.looks import Look

    look = replace(Look.at(data), unfinished=False, precision=True)
    widths: dict[Case, Width] = {}
    for row in compare(data).rows:
        if not row.primary or row.effect is None:
            continue
        if row.effect.kind == "difference" and row.metric.unit != "%":
            continue
        half: float | None = None
        if row.effect.sd is not None:
            error = row.effect.sd / math.sqrt(row.effect.n)
            half = float(t_critical(look.level(row.effect.n) / 2, row.effect.n - 1)) * error
            half /= 100 if row.effect.kind == "difference" else 1
        before = widths.get(row.case, Width(row.effect.n, 0.0))
        widest = None if half is None or before.half_width is None else max(half, before.half_width)
        widths[row.case] = Width(min(before.blocks, row.effect.n), widest)
    return widths


def decide(
    case: Case,
    block: int,
    planned: int,
    width: Width | None,
    wanted: float,
    most: int = MOST_BLOCKS,
) -> Precision:
    """Decide for one case, after block `block` of `planned` is complete, whether to stop, continue or extend.

    `width` is None when no primary metric has a relative interval: such a case runs the planned blocks. The others
    run at least 10 clean blocks and at most `most` blocks.
    """
    if width is None:
        return Precision(case, block, 0, None, wanted, "stop" if block >= planned else "continue")
    narrow = width.half_width is not None and width.half_width <= wanted
    if (width.blocks >= FEWEST_BLOCKS and narrow) or max(block, width.blocks) >= most:
        return Precision(case, block, width.blocks, width.half_width, wanted, "stop")
    decision: Decision = "extend" if block >= planned else "continue"
    return Precision(case, block, width.blocks, width.half_width, wanted, decision)
