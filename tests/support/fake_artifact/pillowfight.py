"""A fake pillowfight: tells the fake engine how many operations it "did", takes FAKE_SLEEP seconds for it."""

from __future__ import annotations

import json
import random
import sys
import time

from common import Link, histogram, one, options

found = options(sys.argv[1:])
link = Link(found)
populate = access = None
client = {"cpu_user_s": 0.1, "cpu_sys_s": 0.1, "wall_s": 1.0, "threads": 2, "cpu_us_per_op": 0.1}
if "populate-only" in found:
    behaviour = link.ask(cmd="phase", name="populate")
    time.sleep(behaviour["sleep"])
    items = int(one(found, "num-items"))
    link.ask(cmd="ops", gets=0, sets=items)
    populate = {"ops": items, "seconds": 0.1, "errors": {}}
else:
    behaviour = link.ask(cmd="phase", name="access")
    time.sleep(behaviour["sleep"])
    duration, share = float(one(found, "duration")), float(one(found, "set-pct")) / 100
    series, gets, sets = [], 0, 0
    rng = random.Random()
    for second in range(int(duration)):
        ops = int(behaviour["rate"] * (1 + rng.gauss(0, 0.003)))
        set_ops = int(ops * share)
        gets, sets = gets + ops - set_ops, sets + set_ops
        series.append({"t": float(second + 1), "ops": ops, "gets": ops - set_ops, "sets": set_ops, "misses": 0, "errors": 0})  # fmt: skip  # noqa: E501
    link.ask(cmd="ops", gets=gets, sets=sets)
    access = {
        "ops": gets + sets, "gets": gets, "sets": sets, "hits": gets - behaviour["misses"],
        "misses": behaviour["misses"], "errors": {"etmpfail": behaviour["errors"]},
        "seconds": duration, "series": series,
        "latency_ns": {"get": histogram(gets, 100_000), "set": histogram(sets, 110_000)},
    }  # fmt: skip
client["busiest_thread_busy"] = behaviour["busy"]
document = {"tool": "pillowfight", "schema": 1, "options": found, "populate": populate, "access": access, "client": client}  # fmt: skip  # noqa: E501
print(json.dumps(document))
