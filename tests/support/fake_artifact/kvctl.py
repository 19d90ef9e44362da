"""A fake kvctl: stat, reset, wait-persisted, sample, topology, set-states, set-config, digest."""

from __future__ import annotations

import os
import sys
import time
from _signal import SIGTERM, pause, signal
from _socket import socket

from common import Link, options, single

results = options(sys.argv[1:])
command, *rest = results[""]
if command == "topology":
    cpus = [
        f'{{"os_index": {n}, "core": {n}, "package": 0, "l3": null, "numa": 0}}'
        for n in sorted(os.sched_getaffinity(0))
    ]
    print(f'{{"cpus": [{", ".join(cpus)}]}}')
    sys.exit(0)
if command == "clock-server":
    assert all(os.path.exists(f"/proc/{pid}") for pid in results["pid"])  # noqa: PTH110
    print('{"port": 4711}', flush=True)
    pause()
if command == "barrier":
    listener = socket()
    listener.bind((single(results, "listen"), 0))
    listener.listen()
    print(f'{{"port": {listener.getsockname()[1]}}}', flush=True)
    arrived = [socket(fileno=listener._accept()[0]) for _ in range(int(single(results, "parties")))]
    for party in arrived:
        party.sendall(b"g")
    sys.exit(0)
link = Link(results)
groups = ", ".join(f'"{group}"' for group in rest)
if command == "stat":
    print(link.line(f'{{"cmd": "stat", "groups": [{groups}]}}'))
elif command == "reset":
    link.line('{"cmd": "reset"}')
elif command == "wait-persisted":
    link.line('{"cmd": "persist"}')
elif command in ("set-states", "set-config"):
    with open(single(results, "config")) as file:  # noqa: PTH123
        config = " ".join(file.read().splitlines())
    link.line(f'{{"cmd": "{command}", "config": {config}}}')
elif command == "digest":
    print(link.line('{"cmd": "digest"}'))
elif command == "sample":
    signal(SIGTERM, lambda *_: sys.exit(0))
    once = "out" not in results
    open(f"/proc/{single(results, 'pid')}/stat").close()  # noqa: PTH123
    with open("/dev/stdout" if once else single(results, "out"), "a") as out:  # noqa: PTH123
        while True:
            memory = link.line('{"cmd": "memory"}')
            out.write(
                f'{{"t": {time.time()}, "rss": 1100000, "pss": 1090000, "pss_file": 10000, "lazyfree": 100000, '
                f'"anon_huge": 0, "vsz": 9000000, "stacks_vsz": 1000000, "cpu_user_s": {time.process_time()}, '
                f'"cpu_sys_s": 0.0, "threads": 3, "stat": {memory}}}\n'
            )
            out.flush()
            if once:
                break
            time.sleep(int(single(results, "interval-ms")) / 1000)
else:
    sys.exit(2)
