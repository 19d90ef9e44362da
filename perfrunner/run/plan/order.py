"""The order of the trials: blocks, each of which holds every arm of every cell once, in random order.

A cell is a (workload, bucket type). Inside a block the cells come in random order, and a cell's variants follow each
other back to back, in a random order of its own: the two trials of a comparison are then minutes apart, not an
hour, so that slow drift of the host cancels in the paired difference. Every permutation is drawn afresh.

A block's order depends on the seed, the block's number and the attempt alone: adding blocks, or resuming a run, never
changes the order of another block. Random keys come from numpy's PCG64 and are sorted, which (unlike
Generator.permutation) is the same in every numpy release.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perfrunner.spec.model import Spec

T = TypeVar("T")


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to come. `block` counts from 1 over the run, `position` from 1 inside the block."""

    block: int
    position: int
    workload: str
    bucket: str
    variant: str


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment in their order, and the seed that gave it."""

    seed: int
    blocks: int
    trials: tuple[PlannedTrial, ...]


def draw_seed() -> int:
    """A seed for a spec that names none; it is recorded with the experiment."""
    return secrets.randbelow(2**32)


def make_plan(spec: Spec, seed: int) -> Plan:
    """All blocks of the spec."""
    trials = [t for block in range(1, spec.blocks + 1) for t in plan_block(spec, seed, block)]
    return Plan(seed=seed, blocks=spec.blocks, trials=tuple(trials))


def plan_block(spec: Spec, seed: int, block: int, attempt: int = 1) -> tuple[PlannedTrial, ...]:
    """One block; a block that is redone after a void (`attempt` > 1) gets a fresh order."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, block, attempt])))
    order = [
        (workload, bucket, variant)
        for workload, bucket in _shuffled(rng, spec.cells)
        for variant in _shuffled(rng, tuple(spec.variants))
    ]
    return tuple(
        PlannedTrial(block, position, workload, bucket, variant)
        for position, (workload, bucket, variant) in enumerate(order, start=1)
    )


def _shuffled(rng: np.random.Generator, items: Sequence[T]) -> list[T]:
    keys = rng.bit_generator.random_raw(len(items))
    return [items[i] for i in np.argsort(keys, kind="stable")]
