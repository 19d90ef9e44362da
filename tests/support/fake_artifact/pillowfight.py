"""A fake pillowfight: tells the fake engine how many operations it "did", takes FAKE_SLEEP seconds for it."""

from __future__ import annotations

import json
import random
import socket
import sys
import time

from common import ROUNDS, Link, VariantLink, histogram, in_turns, options, single, slices

results = options(sys.argv[1:])
CLIENT = {"cpu_user_s": 0.1, "cpu_sys_s": 0.1, "wall_s": 1.0, "threads": 2, "cpu_us_per_op": 0.1}


def report(populate: dict | None, access: dict | None, busy: object = None) -> dict:
    client = {**CLIENT, "busiest_thread_busy": busy}
    return {"tool": "pillowfight", "schema": 1, "options": results, "populate": populate, "access": access, "client": client}  # fmt: skip  # noqa: E501


def accessed(link: Link, behaviour: dict, ops: int, seconds: float) -> dict:
    """Return the report of a load of `ops` operations, as the engine counts them."""
    sets = int(ops * float(single(results, "set-pct")) / 100)
    gets = ops - sets
    link.ask(cmd="ops", gets=gets, sets=sets)
    return {
        "ops": ops, "gets": gets, "sets": sets, "hits": gets - behaviour["misses"],
        "misses": behaviour["misses"], "errors": {"etmpfail": behaviour["errors"]},
        "seconds": seconds,
        "latency_ns": {"get": histogram(gets, 100_000), "set": histogram(sets, 110_000)},
    }  # fmt: skip


def turns(link: VariantLink, place: int) -> dict:
    behaviour = link.ask(cmd="phase", name="access")
    time.sleep(behaviour["sleep"])
    own = slices(behaviour["rate"], ROUNDS, place)
    access = accessed(link, behaviour, sum(own["ops"]), sum(own["wall_ns"]) / 1e9)
    return {"report": report(None, access, behaviour["busy"]), "slices": own}


def populated(link: Link) -> dict:
    behaviour = link.ask(cmd="phase", name="populate")
    time.sleep(behaviour["sleep"])
    items = int(single(results, "num-items"))
    link.ask(cmd="ops", gets=0, sets=items)
    return report({"ops": items, "seconds": 0.1, "errors": {}}, None, behaviour["busy"])


if "variant" in results and "populate-only" in results:
    in_turns(results, "pillowfight", lambda variant, _: {"report": populated(variant)})
if "variant" in results:
    in_turns(results, "pillowfight", turns)
link = Link(results)
if "populate-only" in results:
    print(json.dumps(populated(link)))
else:
    if "barrier" in results:
        host, _, port = single(results, "barrier").rpartition(":")
        with socket.create_connection((host, int(port)), 20) as barrier:
            barrier.sendall(b"r")
            if barrier.recv(1) != b"g":
                sys.exit("the barrier went away")
    behaviour = link.ask(cmd="phase", name="access")
    time.sleep(behaviour["sleep"])
    duration, series, rng = float(single(results, "duration")), [], random.Random()
    for second in range(int(duration)):
        ops = int(behaviour["rate"] * (1 + rng.gauss(0, 0.003)))
        series.append({"t": float(second + 1), "ops": ops})
    access = accessed(link, behaviour, sum(p["ops"] for p in series), duration)
    print(json.dumps(report(None, {**access, "series": series}, behaviour["busy"])))
