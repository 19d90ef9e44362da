"""Extract from a finished experiment the comparisons that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perfrunner.analysis.cases import CaseBlocks, clean_blocks
from perfrunner.analysis.compare import compare
from perfrunner.errors import StoreError, TrialError
from perfrunner.measure.slices import Slices, paired_levels
from perfrunner.report.explain import profiled_pair
from perfrunner.results import ExperimentData, TrialRecord
from perfrunner.results.files import raw_files
from perfrunner.results.raw import slices_in
from tools.evidence.kept import Comparison, rounded
from tools.evidence.studies import Planned

HOST = ("cpu_model", "cpus", "memory_bytes", "kernel", "distribution", "virtualization")


def comparisons(planned: Planned, data: ExperimentData) -> list[Comparison]:
    """Return the comparisons of each case and each group of variants in the study; none if no block counts."""
    compared = []
    report = _report_of(data)
    for case in clean_blocks(data.trials).values():
        blocks = [
            {trial.variant: trial for trial in trials} for _, trials in sorted(case.blocks.items())
        ]
        for variants in planned.pairs:
            whole = [
                variants_of
                for variants_of in blocks
                if all(variant in variants_of for variant in variants)
            ]
            if not whole:
                continue
            if any(len({block[variant].group for variant in variants}) > 1 for block in whole):
                raise StoreError(
                    f"{planned.name}: its variants were not alive together",
                    hint="give fewer --variants, or free some memory",
                )
            values = {
                variant: _values([block[variant] for block in whole], planned.metrics)
                for variant in variants
            }
            if variants[0] != planned.document["baseline"]:
                _pair_anew(values, variants, whole, data)
            compared.append(
                Comparison(
                    experiment=planned.name,
                    workload=case.case.workload,
                    bucket=case.case.bucket,
                    values=values,
                    primary=tuple(planned.document["primary"]),
                    facts={
                        **planned.facts,
                        "began": data.experiment.created_at.isoformat(timespec="seconds"),
                        "busy": round(_load_average(data), 1),
                        "ops": round(float(np.median(list(_operations(whole, variants[0]))))),
                        "report": report,
                        **_explained(planned, data, case, variants),
                    },
                )
            )
    return compared


def _explained(
    planned: Planned, data: ExperimentData, case: CaseBlocks, variants: Sequence[str]
) -> dict[str, Any]:
    """Return, for each variant of the study `explain`, the number of functions and the one that is named first."""
    if planned.study != "explain":
        return {}
    by_variant: dict[str, Any] = {}
    for variant in variants[1:]:
        pair = profiled_pair(data, case, variants[0], variant)
        first = next(iter(pair.tested.changed.items()), None)
        by_variant[variant] = {
            "samples": pair.tested.samples,
            "functions": len(pair.tested.functions),
            "changed": len(pair.tested.changed),
            "first": None
            if first is None
            else [*first[0], rounded(first[1].difference / pair.tested.total.base)],
        }
    return {"explained": by_variant}


def host(data: ExperimentData) -> dict[str, Any]:
    """Return the facts of the host that matter to a reader."""
    hosts: Mapping[str, Mapping[str, Any]] = data.experiment.facts.get("hosts", {})
    facts = next(iter(hosts.values()), {})
    return {name: facts[name] for name in HOST if name in facts}


def _report_of(data: ExperimentData) -> dict[str, Any]:
    """Return the number of rows of the whole experiment's report, and those with *better* or *worse*."""
    rows = [
        row for row in compare(data).rows if row.effect is not None and row.effect.ci95 is not None
    ]
    differ = [
        f"{row.variant} {row.metric.id}" for row in rows if row.verdict in ("better", "worse")
    ]
    return {"rows": len(rows), "differ": differ}


def _values(trials: Sequence[TrialRecord], metrics: Sequence[str]) -> dict[str, list[float]]:
    """Return the values, by block, of the metrics that every trial has."""
    return {
        metric: [rounded(float(trial.metrics[metric])) for trial in trials]
        for metric in metrics
        if all(metric in trial.metrics for trial in trials)
    }


def _pair_anew(
    values: dict[str, dict[str, list[float]]],
    variants: Sequence[str],
    blocks: Sequence[Mapping[str, TrialRecord]],
    data: ExperimentData,
) -> None:
    """Compute the ratio of two other variants from slices; stored rates are relative to the baseline."""
    for variant in variants:
        values[variant]["ops_per_s"] = []
    for block in blocks:
        levels = paired_levels([_slices(block[variant], data) for variant in variants], 0)
        for variant, level in zip(variants, levels, strict=True):
            values[variant]["ops_per_s"].append(rounded(level))


def _slices(trial: TrialRecord, data: ExperimentData) -> Slices:
    try:
        return slices_in(raw_files(data, trial.raw_dir))
    except (OSError, TrialError) as error:
        raise StoreError(f"{trial.raw_dir}: no slices: {error}") from error


def _load_average(data: ExperimentData) -> float:
    hosts: Mapping[str, Mapping[str, Any]] = data.experiment.facts.get("hosts", {})
    return max((float(facts.get("load_average", 0.0)) for facts in hosts.values()), default=0.0)


def _operations(blocks: Sequence[Mapping[str, TrialRecord]], variant: str) -> Iterator[float]:
    """Yield the approximate number of operations of each trial of a variant."""
    for block in blocks:
        facts = block[variant].facts
        yield (
            float(facts.get("rounds", 0))
            * float(facts.get("slice", 0))
            * float(block[variant].metrics.get("ops_per_s_total", 0))
        )
