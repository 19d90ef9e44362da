"""latency: the front-end latency program, one process; its report says what it was built with, and that is checked."""

from __future__ import annotations

import json

from perfrunner.errors import TrialError
from perfrunner.spec.workloads import LatencySpec
from perfrunner.workloads.bench import Measured, ToolBench

PHASES = ("add", "get", "replace", "delete")
FIGURES = ("p50_us", "p95_us", "p99_us", "sd_us")


def run(bench: ToolBench, spec: LatencySpec) -> Measured:
    bench.phase("measure", spec.expected_seconds)
    arguments = [
        f"--items={spec.items}",
        f"--value-size={spec.value_size}",
        f"--dcp={spec.dcp}",
        f"--bucket-type={spec.bucket}",
    ]
    if spec.snapshot_interval_us is not None:
        arguments.append(f"--snapshot-interval-us={spec.snapshot_interval_us}")
    text = bench.tool("front_end_latency", arguments, output="latency")
    try:
        document = json.loads(text)
        settings = {f"build.{k}": str(v) for k, v in document["build"].items()}
        allocator = dict(document["allocator"])
        allocator |= allocator.pop("options", {})  # named opt.x, as in STAT allocator
        settings |= {f"allocator.{k}": str(v) for k, v in allocator.items()}
        metrics = {
            f"Latency/{phase.capitalize()}/{figure}": float(document["phases"][phase][figure])
            for phase in PHASES
            for figure in FIGURES
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"latency.json is no report of front_end_latency: {error!r}") from None
    bench.check_settings(settings)
    return Measured(metrics=metrics, facts={"dcp": document.get("dcp", {}), "context": settings})
