"""A fake conductor: runs each variant's program once to its end and makes slices of its report."""

from __future__ import annotations

import json
import subprocess
import sys

ROUNDS = 5

with open(sys.argv[1]) as file:  # noqa: PTH123 - pathlib doubles the start-up time
    plan = json.load(file)
document: dict = {
    "tool": "conductor",
    "schema": 1,
    "failure": None,
    "failed_variant": None,
    "variants": [],
}
benchmarks: dict[str, dict] = {}
for variant in plan["variants"]:
    argv = [word for word in variant["argv"] if word != "--slices"]
    done = subprocess.run(
        [*argv, "--benchmark_format=json"], env=variant["env"], capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode:
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"  # fmt: skip
        failure = f"variant {variant['name']} ended ({how}): {done.stderr.strip()}"
        document |= {"failure": failure, "failed_variant": variant["name"]}
        print(failure, file=sys.stderr)
        break
    report = json.loads(done.stdout)
    document["variants"].append(
        {
            "name": variant["name"],
            "pid": 1,
            "context": report["context"],
            "report": None,
            "stderr": done.stderr,
        }
    )
    for row in report["benchmarks"]:
        entry = benchmarks.setdefault(
            row["name"], {"name": row["name"], "pass": None, "rounds": ROUNDS, "variants": []}
        )
        entry["variants"].append(
            {
                "iterations": [10] * ROUNDS,
                "real_ns": [10 * row["real_time"]] * ROUNDS,
                "cpu_ns": [10 * row["cpu_time"]] * ROUNDS,
                "counters": {"PeakBytesPerItem": [row["PeakBytesPerItem"]] * ROUNDS},
                "position": [0] * ROUNDS,
            }
        )
document["benchmarks"] = list(benchmarks.values())
print(json.dumps(document), flush=True)
sys.exit(1 if document["failure"] else 0)
