"""A fake kvctl: stat, reset, wait-persisted, sample, topology, set-states, set-config, digest."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from common import Link, one, options

found = options(sys.argv[1:])
command, *rest = found[""]
if command == "topology":
    cpus = sorted(os.sched_getaffinity(0))
    print(json.dumps({"cpus": [{"os_index": n, "core": n, "package": 0, "l3": None, "numa": 0} for n in cpus]}))  # fmt: skip  # noqa: E501
    sys.exit(0)
if command == "clock-server":
    assert all(os.path.exists(f"/proc/{pid}") for pid in found["pid"])  # noqa: PTH110
    print(json.dumps({"port": 4711}), flush=True)
    signal.pause()
if command == "barrier":
    listener = socket.socket()
    listener.bind((one(found, "listen"), 0))
    listener.listen()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    arrived = [listener.accept()[0] for _ in range(int(one(found, "parties")))]
    for party in arrived:
        party.sendall(b"g")
    sys.exit(0)
link = Link(found)
if command == "stat":
    print(json.dumps(link.ask(cmd="stat", groups=rest)))
elif command == "reset":
    link.ask(cmd="reset")
elif command == "wait-persisted":
    link.ask(cmd="persist")
elif command in ("set-states", "set-config"):
    with open(one(found, "config")) as file:  # noqa: PTH123
        link.ask(cmd=command, config=json.load(file))
elif command == "digest":
    print(json.dumps(link.ask(cmd="digest")))
elif command == "sample":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    once = "out" not in found
    open(f"/proc/{one(found, 'pid')}/stat").close()  # noqa: PTH123
    with open("/dev/stdout" if once else one(found, "out"), "a") as out:  # noqa: PTH123
        while True:
            memory = {
                k: float(v) for k, v in link.ask(cmd="stat", groups=["memory"])["memory"].items()
            }
            line = {
                "t": time.time(), "rss": 1_100_000, "pss": 1_090_000, "pss_file": 10_000, "lazyfree": 100_000,
                "anon_huge": 0, "vsz": 9_000_000, "stacks_vsz": 1_000_000,
                "cpu_user_s": time.process_time(), "cpu_sys_s": 0.0, "threads": 3, "stat": memory,
            }  # fmt: skip
            out.write(json.dumps(line) + "\n")
            out.flush()
            if once:
                break
            time.sleep(int(one(found, "interval-ms")) / 1000)
else:
    sys.exit(2)
