"""From a finished experiment to the comparisons that are kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perfrunner.analysis import compare
from perfrunner.analysis.cells import clean_blocks
from perfrunner.errors import StoreError, TrialError
from perfrunner.evidence.kept import Comparison, rounded
from perfrunner.evidence.studies import Planned
from perfrunner.measure.turns import Slices, paired_levels
from perfrunner.results import ExperimentData, TrialRecord
from perfrunner.results.files import raw_files
from perfrunner.results.slices import slices_in

HOST = ("cpu_model", "cpus", "memory_bytes", "kernel", "distribution", "virtualization")


def comparisons(planned: Planned, data: ExperimentData) -> list[Comparison]:
    """Of every cell and every group of arms that the study compares; without blocks that count there is none."""
    found = []
    said = _said(data)
    for cell in clean_blocks(data.trials).values():
        blocks = [
            {trial.variant: trial for trial in trials} for _, trials in sorted(cell.blocks.items())
        ]
        for arms in planned.pairs:
            whole = [arms_of for arms_of in blocks if all(arm in arms_of for arm in arms)]
            if not whole:
                continue
            if any(len({block[arm].ensemble for arm in arms}) > 1 for block in whole):
                raise StoreError(
                    f"{planned.name}: its arms were not alive together",
                    hint="give fewer --arms, or free some memory",
                )
            values = {
                arm: _values([block[arm] for block in whole], planned.metrics) for arm in arms
            }
            if arms[0] != planned.document["baseline"]:
                _pair_anew(values, arms, whole, data)
            found.append(
                Comparison(
                    experiment=planned.name,
                    workload=cell.cell.workload,
                    bucket=cell.cell.bucket,
                    values=values,
                    primary=tuple(planned.document["primary"]),
                    facts={
                        **planned.facts,
                        "began": data.experiment.created_at.isoformat(timespec="seconds"),
                        "busy": round(_load_average(data), 1),
                        "ops": round(float(np.median(list(_operations(whole, arms[0]))))),
                        "report": said,
                    },
                )
            )
    return found


def host(data: ExperimentData) -> dict[str, Any]:
    """What it was measured on, as far as it matters to a reader."""
    hosts: Mapping[str, Mapping[str, Any]] = data.experiment.facts.get("hosts", {})
    facts = next(iter(hosts.values()), {})
    return {name: facts[name] for name in HOST if name in facts}


def _said(data: ExperimentData) -> dict[str, Any]:
    """What the whole experiment's own report says: of how many rows, and which of them *better* or *worse*."""
    rows = [
        row for row in compare(data).rows if row.effect is not None and row.effect.ci95 is not None
    ]
    differ = [
        f"{row.variant} {row.metric.id}" for row in rows if row.verdict in ("better", "worse")
    ]
    return {"rows": len(rows), "differ": differ}


def _values(trials: Sequence[TrialRecord], metrics: Sequence[str]) -> dict[str, list[float]]:
    """Of those that every block has."""
    return {
        metric: [rounded(float(trial.metrics[metric])) for trial in trials]
        for metric in metrics
        if all(metric in trial.metrics for trial in trials)
    }


def _pair_anew(
    values: dict[str, dict[str, list[float]]],
    arms: Sequence[str],
    blocks: Sequence[Mapping[str, TrialRecord]],
    data: ExperimentData,
) -> None:
    """The stored rates are relative to the experiment's baseline: of two other arms the slices give the ratio."""
    for arm in arms:
        values[arm]["ops_per_s"] = []
    for block in blocks:
        found = paired_levels([_slices(block[arm], data) for arm in arms], 0)
        for arm, level in zip(arms, found, strict=True):
            values[arm]["ops_per_s"].append(rounded(level))


def _slices(trial: TrialRecord, data: ExperimentData) -> Slices:
    try:
        return slices_in(raw_files(data, trial.raw_dir))
    except (OSError, TrialError) as error:
        raise StoreError(f"{trial.raw_dir}: no slices: {error}") from error


def _load_average(data: ExperimentData) -> float:
    hosts: Mapping[str, Mapping[str, Any]] = data.experiment.facts.get("hosts", {})
    return max((float(facts.get("load_average", 0.0)) for facts in hosts.values()), default=0.0)


def _operations(blocks: Sequence[Mapping[str, TrialRecord]], arm: str) -> Iterator[float]:
    """About how many a trial of the arm drove: for what is counted by operations."""
    for block in blocks:
        facts = block[arm].facts
        yield (
            float(facts.get("rounds", 0))
            * float(facts.get("slice", 0))
            * float(block[arm].metrics.get("ops_per_s_total", 0))
        )
