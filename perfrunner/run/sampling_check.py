"""What the samplers themselves cost: once an experiment, the baseline runs in every cell without them.

These trials are no part of the comparison: they are kept with the experiment's facts, not among its trials, and their
block is number 0. The report sets them against the baseline's sampled trials (analysis/sampling.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfrunner.run.schedule import Task
from perfrunner.run.trial import Deployed, TrialRunner
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload

FACT = "sampling_check"
BLOCK = 0
HARDLY_EVER_MS = 3_600_000  # the longest interval that kvctl takes: one sample, as the phase begins
KEPT = ("ops_per_s", "server_cpu_us_per_op")


def cells_to_check(spec: Spec) -> list[tuple[str, str]]:
    """(workload, bucket) of every cell on an engine; programs without one are not sampled."""
    if not spec.sampling_check:
        return []
    return [cell for cell in spec.cells if not isinstance(spec.workloads[cell[0]], ToolWorkload)]


def check_sampling(runner: TrialRunner, spec: Spec, deployed: Deployed) -> Iterator[dict[str, Any]]:
    """One record a cell, each after its trial: what the baseline did while nobody looked."""
    for position, (workload, bucket) in enumerate(cells_to_check(spec), start=1):
        task = Task(BLOCK, 1, position, workload, bucket, spec.baseline)
        result = runner.run(task, deployed, sample_interval_ms=HARDLY_EVER_MS)
        yield {
            "workload": workload,
            "bucket": bucket,
            "variant": spec.baseline,
            "status": result.status,
            "reason": result.reason,
            "metrics": {name: result.metrics[name] for name in KEPT if name in result.metrics},
        }
