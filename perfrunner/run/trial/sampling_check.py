"""What the samplers themselves cost: once an experiment, the baseline runs in every cell without them.

Beside each of these trials it runs once with them: as an ensemble of the two where the workload's arms run side by
side, as neighbours in time where they run alone. Neither is a part of the comparison: they are kept with the
experiment's facts, not among its trials, and their block is number 0. What they say is analysis/sampling.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perfrunner.run.plan.ensembles import Layout
from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.runner import TrialRunner
from perfrunner.run.trial.seats import Deployed, TrialResult
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


def check_sampling(
    runner: TrialRunner, spec: Spec, deployed: Deployed, laid_out: Mapping[str, Layout]
) -> Iterator[dict[str, Any]]:
    """One record a cell: what the baseline did while nobody looked, and beside that, or right before or after, as ever.

    Which of the two comes first alternates, so that neither the slot nor the host's drift is a cost.
    """
    for position, (workload, bucket) in enumerate(cells_to_check(spec), start=1):
        order = (True, False) if position % 2 else (False, True)
        layout = laid_out[workload]
        ensemble = 0 if layout.alone else 1
        tasks = [
            Task(
                BLOCK,
                SAMPLED if sampled else BARE,
                position,
                workload,
                bucket,
                spec.baseline,
                ensemble,
            )
            for sampled in order
        ]
        intervals = [SAMPLE_INTERVAL_MS if sampled else HARDLY_EVER_MS for sampled in order]
        arms = {spec.baseline: deployed}
        done: Sequence[TrialResult]
        if ensemble:
            done = runner.run(tasks, arms, sample_interval_ms=intervals)
        else:
            done = [
                runner.run([task], arms, sample_interval_ms=[interval])[0]
                for task, interval in zip(tasks, intervals, strict=True)
            ]
        results = dict(zip(order, done, strict=True))
        not_ok = [result for result in results.values() if result.status != "ok"]
        yield {
            "workload": workload,
            "bucket": bucket,
            "side_by_side": bool(ensemble),
            "variant": spec.baseline,
            "status": not_ok[0].status if not_ok else "ok",
            "reason": not_ok[0].reason if not_ok else "",
            "sampled": _kept(results[True].metrics),
            "bare": _kept(results[False].metrics),
        }


def _kept(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in KEPT if name in metrics}
