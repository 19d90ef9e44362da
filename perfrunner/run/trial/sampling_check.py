"""What the samplers themselves cost: once an experiment, the baseline runs in every cell without them.

Beside each of these trials it runs once with them, for a host drifts in the time of an experiment. Neither is a part of
the comparison: they are kept with the experiment's facts, not among its trials, and their block is number 0. What they
say is analysis/sampling.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.runner import Deployed, TrialRunner
from perfrunner.run.trial.serverbench import SAMPLE_INTERVAL_MS
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload

FACT = "sampling_check"
BLOCK = 0
BARE, SAMPLED = 1, 2  # the attempt's number tells the two trials of a cell apart
HARDLY_EVER_MS = 3_600_000  # the longest interval that kvctl takes: one sample, as the phase begins
KEPT = ("ops_per_s", "server_cpu_us_per_op")


def cells_to_check(spec: Spec) -> list[tuple[str, str]]:
    """(workload, bucket) of every cell on an engine; programs without one are not sampled."""
    if not spec.sampling_check:
        return []
    return [cell for cell in spec.cells if not isinstance(spec.workloads[cell[0]], ToolWorkload)]


def check_sampling(runner: TrialRunner, spec: Spec, deployed: Deployed) -> Iterator[dict[str, Any]]:
    """One record a cell: what the baseline did while nobody looked, and right before or after that as ever.

    The two trials are neighbours, and which of them comes first alternates, so that drift of the host is no cost.
    """
    for position, (workload, bucket) in enumerate(cells_to_check(spec), start=1):
        results = {}
        for sampled in (True, False) if position % 2 else (False, True):
            task = Task(
                BLOCK, SAMPLED if sampled else BARE, position, workload, bucket, spec.baseline
            )
            interval = SAMPLE_INTERVAL_MS if sampled else HARDLY_EVER_MS
            results[sampled] = runner.run(task, deployed, sample_interval_ms=interval)
        not_ok = [result for result in results.values() if result.status != "ok"]
        yield {
            "workload": workload,
            "bucket": bucket,
            "variant": spec.baseline,
            "status": not_ok[0].status if not_ok else "ok",
            "reason": not_ok[0].reason if not_ok else "",
            "sampled": _kept(results[True].metrics),
            "bare": _kept(results[False].metrics),
        }


def _kept(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in KEPT if name in metrics}
