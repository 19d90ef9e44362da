"""The order of the trials: blocks, each of which holds every arm of every cell once, in random order.

A cell is a (workload, bucket type). Inside a block the cells come in random order, and a cell's variants in a random
order of their own: side by side it is the order of their slots (who is started, connected and populated first); alone
they follow each other back to back, so that slow drift of the host cancels in the paired difference. Every permutation
is drawn afresh.

A block's order depends on the seed, the block's number and the attempt alone: adding blocks, or resuming a run, never
changes the order of another block. Random keys come from numpy's PCG64 and are sorted, which (unlike
Generator.permutation) is the same in every numpy release.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perfrunner.run.plan.ensembles import Layout, groups, layouts
from perfrunner.spec.model import Spec

T = TypeVar("T")


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to come. `block` counts from 1 over the run, `position` from 1 inside the block.

    Trials of one cell with the same `ensemble` (from 1) run side by side, their order is that of the slots; 0: alone.
    """

    block: int
    position: int
    workload: str
    bucket: str
    variant: str
    ensemble: int = 0


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment in their order, and the seed that gave it."""

    seed: int
    blocks: int
    trials: tuple[PlannedTrial, ...]


def draw_seed() -> int:
    """A seed for a spec that names none; it is recorded with the experiment."""
    return secrets.randbelow(2**32)


def make_plan(spec: Spec, seed: int, laid_out: Mapping[str, Layout] | None = None) -> Plan:
    """All blocks of the spec."""
    known = layouts(spec, None) if laid_out is None else laid_out
    blocks = range(1, spec.blocks + 1)
    trials = [t for block in blocks for t in plan_block(spec, seed, block, laid_out=known)]
    return Plan(seed=seed, blocks=spec.blocks, trials=tuple(trials))


def plan_block(
    spec: Spec,
    seed: int,
    block: int,
    attempt: int = 1,
    *,
    laid_out: Mapping[str, Layout] | None = None,
) -> tuple[PlannedTrial, ...]:
    """One block; a block that is redone after a void (`attempt` > 1) gets a fresh order.

    `laid_out` says by workload how its arms run; without it memory sets no bound.
    """
    known = layouts(spec, None) if laid_out is None else laid_out
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, block, attempt])))
    order = [
        (workload, bucket, variant, ensemble)
        for workload, bucket in _shuffled(rng, spec.cells)
        for ensemble, group in _ensembles(
            _shuffled(rng, tuple(spec.variants)), spec, known[workload]
        )
        for variant in group
    ]
    return tuple(
        PlannedTrial(block, position, workload, bucket, variant, ensemble)
        for position, (workload, bucket, variant, ensemble) in enumerate(order, start=1)
    )


def _ensembles(order: Sequence[str], spec: Spec, layout: Layout) -> list[tuple[int, Sequence[str]]]:
    if layout.alone:
        return [(0, order)]
    return list(enumerate(groups(order, spec.baseline, layout.arms), start=1))


def _shuffled(rng: np.random.Generator, items: Sequence[T]) -> list[T]:
    keys = rng.bit_generator.random_raw(len(items))
    return [items[i] for i in np.argsort(keys, kind="stable")]
