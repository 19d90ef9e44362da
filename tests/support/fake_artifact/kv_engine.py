"""A fake kv_engine: same command line, same life cycle, no storage. Behaves badly when FAKE_* variables say so.


FAKE_DIE_IN=populate|access|load|start  SIGKILL itself when that phase begins
FAKE_NEVER_READY=1                  listens, and never says so
FAKE_ONCE=FILE                      only the first time (the file is the memory of it)
FAKE_MISSES, FAKE_ERRORS, FAKE_BUSY what the clients are asked to report
FAKE_LIE=N                          the server's counter is off by N
FAKE_SLEEP=S                        how long a client phase really takes (default 0.05)
FAKE_LINGERS="persist digest stop"  what else takes so long
FAKE_RATE=N                         operations a second to report
FAKE_EXIT=N                         the exit status of a clean stop
FAKE_STUBBORN=1                     ignores SIGTERM
FAKE_LOSES=HOST                     the engine that is informed that it is HOST lacks a document of each replica
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

from common import options, single

results = options(sys.argv[1:])
env = os.environ
counters = {"cmd_get": 0, "cmd_set": 0, "curr_items": 0}
states: dict[int, str] = {}  # of vBuckets, once a manager has set them
published: list[dict] = []


def first_time() -> bool:
    marker = env.get("FAKE_ONCE")
    if not marker:
        return True
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def linger(phase: str) -> None:
    if phase in env.get("FAKE_LINGERS", "").split():
        time.sleep(float(env["FAKE_SLEEP"]))


def enter(phase: str) -> dict:
    if env.get("FAKE_DIE_IN") == phase and first_time():
        print(f"fake engine dies in {phase}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    bad = {key: env.get(f"FAKE_{key.upper()}") for key in ("misses", "errors", "busy")}
    if phase not in ("access", "load") or (any(bad.values()) and not first_time()):
        bad = {}
    return {
        "sleep": float(env.get("FAKE_SLEEP", "0.05")),
        "rate": float(env.get("FAKE_RATE", "100000")),
        "misses": int(bad.get("misses") or 0),
        "errors": int(bad.get("errors") or 0),
        "busy": float(bad.get("busy") or 0.5),
    }


def stat(groups: list[str]) -> dict:
    everything = {
        "": {"pid": os.getpid(), "version": "fake", **counters, "ep_queue_size": 0},
        "memory": {
            "mem_used": 700_000, "total_heap_bytes": 1_000_000, "total_metadata_bytes": 9_000,
            "ep_max_size": int(single(results, "quota-mb", "0")) * 2**20,
        },
        "allocator": {"name": "system", "version": "glibc 2.36", "conf_env": ""},
        "config": {key: values[-1] for key, values in results.items()},
        "timings": {},
        "replication": {"streams_opened": sum(s == "replica" for s in states.values()) if published else 0},
        "vbucket-seqno": {f"vb_{n}:high_seqno": 10 for n in range(int(single(results, "vbuckets")))},
    }  # fmt: skip
    if env.get("FAKE_NO_MAPPED"):
        del everything["memory"]["total_heap_bytes"]
    chosen = groups or [""]
    return {g: {k: str(v) for k, v in everything[g].items()} for g in chosen}


def set_states(config: dict) -> None:
    me = next(n for n, node in enumerate(config["nodesExt"]) if node.get("thisNode"))
    for vbucket, row in enumerate(config["vBucketServerMap"]["vBucketMap"]):
        states[vbucket] = "active" if row[0] == me else "replica" if me in row else "dead"


def digest() -> dict:
    mine = [node["hostname"] for node in published[-1]["nodesExt"] if node.get("thisNode")]
    short = env.get("FAKE_LOSES") in mine
    return {
        str(n): {
            "state": state, "high_seqno": 10, "documents": 9 if short and state == "replica" else 10,
            "tombstones": 0, "digest": n, "sample": {"key": b"k".hex(), "cas": 7, "value_crc32": 1},
        }
        for n, state in states.items() if state != "dead"
    }  # fmt: skip


def serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rw") as file, contextlib.suppress(OSError):
        for line in file:
            request = json.loads(line)
            command = request["cmd"]
            answer: dict = {"ok": True}
            if command == "auth":
                if users.get(request["user"]) != request["password"]:
                    answer = {"ok": False}
            elif command == "phase":
                answer = enter(request["name"])
            elif command == "ops":
                counters["cmd_get"] += request["gets"]
                counters["cmd_set"] += request["sets"] + int(env.get("FAKE_LIE", "0"))
            elif command == "reset":
                counters.update(cmd_get=0, cmd_set=0)
            elif command == "set-states":
                set_states(request["config"])
            elif command == "set-config":
                published.append(request["config"])
            elif command == "persist":
                linger("persist")
            elif command == "digest":
                linger("digest")
                answer = digest()
            elif command == "stat":
                answer = stat(request["groups"])
            elif command == "memory":
                answer = {name: float(value) for name, value in stat(["memory"])["memory"].items()}
            file.write(json.dumps(answer) + "\n")
            file.flush()


def stop(signum: int, frame: object) -> None:
    if env.get("FAKE_STUBBORN"):
        return
    linger("stop")
    print("stopping", file=sys.stderr, flush=True)
    os._exit(int(env.get("FAKE_EXIT", "0")))


signal.signal(signal.SIGTERM, stop)
print(f"fake engine {' '.join(sys.argv[1:])}", file=sys.stderr, flush=True)
users_file = single(results, "users")
if os.stat(users_file).st_mode & 0o077:  # noqa: PTH116
    sys.exit("users file is readable by others")
with open(users_file) as file:  # noqa: PTH123
    users = json.load(file)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listener.bind((single(results, "host"), int(single(results, "port"))))
except OSError as error:
    print(f"cannot listen on port {single(results, 'port')}: {error.strerror}", file=sys.stderr)
    sys.exit(1)
listener.listen(64)
with open(f"{single(results, 'data-dir')}/fake.db", "w") as file:  # noqa: PTH123
    file.write("data")
enter("start")
if env.get("FAKE_NEVER_READY") and first_time():
    print("fake engine warms up for ever", file=sys.stderr, flush=True)
    signal.pause()
port_file = single(results, "port-file")
with open(port_file + ".tmp", "w") as file:  # noqa: PTH123
    file.write(f"{listener.getsockname()[1]}\n")
os.rename(port_file + ".tmp", port_file)  # noqa: PTH104


def accept() -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
while True:
    time.sleep(3600)
