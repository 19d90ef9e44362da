"""A benchmark program without benchmarks: a Google Benchmark report whose contents FAKE_BENCH_* variables decide."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

if "--benchmark_format=json" not in sys.argv:
    sys.exit("only JSON")
print(os.environ.get("FAKE_BENCH_SAYS", "running"), file=sys.stderr)
time.sleep(float(os.environ.get("FAKE_BENCH_SLEEP", "0")))
if os.environ.get("FAKE_BENCH_CRASH"):
    os.kill(os.getpid(), signal.SIGSEGV)
if os.environ.get("FAKE_BENCH_FAIL"):
    sys.exit("the bench gave up")
(Path(os.environ["TMPDIR"]) / "scratch").write_text("x")
base = float(os.environ.get("FAKE_BENCH_NS", "100"))
print(
    json.dumps(
        {
            "context": {
                "build.cursor_drop": os.environ.get("FAKE_BENCH_DROP", "compare"),
                "allocator.name": "system",
                "allocator.version": "glibc",
                "arguments": " ".join(sys.argv[1:]),
                "padding": str(len(os.environ.get("PERFRUNNER_PADDING", ""))),
            },
            "benchmarks": [
                {
                    "name": f"CheckpointBench/GetCursorsToDrop/{n}",
                    "run_name": f"CheckpointBench/GetCursorsToDrop/{n}",
                    "run_type": "iteration",
                    "repetitions": 1,
                    "iterations": 10,
                    "real_time": base * n,
                    "cpu_time": base * n / 2,
                    "time_unit": "ns",
                    "PeakBytesPerItem": 7.0,
                }
                for n in (1, 10, 100)
            ],
        }
    )
)
