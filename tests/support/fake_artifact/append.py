"""A fake append: load and update in one process."""

from __future__ import annotations

import json
import sys
import time

from common import ROUNDS, Link, VariantLink, histogram, in_turns, options, single, slices

results = options(sys.argv[1:])
items, rounds = int(single(results, "items")), int(single(results, "rounds"))
updates = int(items * rounds * 1.3125)


def report(link: Link) -> dict:
    behaviour = link.ask(cmd="phase", name="load")
    time.sleep(behaviour["sleep"])
    link.ask(cmd="ops", gets=updates, sets=items + updates)
    return {
        "tool": "append", "schema": 1, "options": results,
        "load": {"ops": items, "seconds": 0.5},
        "update": {
            "rmw": updates, "seconds": 2.0, "gets": updates, "sets": updates, "misses": behaviour["misses"],
            "errors": {"etmpfail": behaviour["errors"]},
            "series": [{"t": 1.0, "ops": updates // 2}, {"t": 2.0, "ops": updates // 2}],
            "latency_ns": {"get": histogram(updates, 90_000), "set": histogram(updates, 95_000)},
        },
        "live_bytes": items * 1000,
        "client": {"cpu_user_s": 0.1, "cpu_sys_s": 0.1, "wall_s": 1.0, "threads": 1,
                   "cpu_us_per_op": 0.1, "busiest_thread_busy": behaviour["busy"]},
    }  # fmt: skip


def turns(link: VariantLink, place: int) -> dict:
    return {"report": report(link), "slices": slices(50_000, ROUNDS, place)}


if "variant" in results:
    in_turns(results, "append", turns)
print(json.dumps(report(Link(results))))
