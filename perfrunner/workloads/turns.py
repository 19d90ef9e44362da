"""From the slices of an ensemble to the figures of each arm.

Throughput is robust over rounds (a slice that the host or the engine held up counts as one of many), and its totals
stand beside it with every slice in them: where the two disagree, the difference sits in rare slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from perfrunner.measure.client import ClientReport, Phase
from perfrunner.measure.turns import WAITS_FACT, ArmTurns, Turns
from perfrunner.workloads.metrics import driven, load_facts


@dataclass(frozen=True)
class Driven:
    """What the load did to one arm. `ops` is all that its server answered, warm-up included."""

    report: ClientReport
    ops: int
    metrics: Mapping[str, float]
    facts: Mapping[str, object] = field(default_factory=dict)


def driven_in_turns(turns: Turns, baseline: int) -> list[Driven]:
    """In the order of the arms."""
    facts = {
        "slice": turns.slice,
        "rounds": turns.rounds,
        "warmup_rounds": turns.warmup_rounds,
        "round_seed": turns.round_seed,
    }
    return [
        Driven(
            report=_with_warmup(arm),
            ops=arm.warmup_ops + driven(arm.report).ops,
            metrics={"ops_per_s": level, **slice_metrics(arm)},
            facts={
                **facts,
                **load_facts(driven(arm.report), float(arm.slices.wall_ns.sum()) * 1e-9),
                **waits(arm),
            },
        )
        for arm, level in zip(turns.arms, turns.levels(baseline), strict=True)
    ]


def slice_metrics(arm: ArmTurns) -> dict[str, float]:
    """Totals over every slice, the distribution of slices, and CPU time per operation by the processes' own clocks."""
    slices = arm.slices
    ops = float(slices.ops.sum())
    metrics = {
        "ops_per_s_total": ops / (float(slices.wall_ns.sum()) * 1e-9),
        "ops_per_s_p90": float(np.percentile(slices.rates, 90)),
        "slow_slices": 100.0 * slices.slow_share,
        "client_cpu_us_per_op": float(slices.client_cpu_ns.sum()) / 1000.0 / ops,
    }
    if slices.cpu_ns is not None:
        metrics["server_cpu_us_per_op"] = float(slices.cpu_ns.sum()) / 1000.0 / ops
    return metrics


def waits(arm: ArmTurns) -> dict[str, object]:
    """In which share of the slices the load waited for a CPU."""
    share = arm.slices.waits_share
    return {} if share is None else {WAITS_FACT: round(share, 4)}


def _with_warmup(arm: ArmTurns) -> ClientReport:
    """The warm-up's misses and errors count like any others: it stands for what came before the measured phase."""
    if arm.report.prepare is not None or not arm.warmup_ops:
        return arm.report
    warmup = Phase(
        ops=arm.warmup_ops,
        gets=0,
        sets=0,
        misses=arm.warmup_misses,
        errors=arm.warmup_errors,
        seconds=0.0,
    )
    return replace(arm.report, prepare=warmup)
