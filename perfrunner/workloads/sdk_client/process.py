"""Run one process: parse the options, connect, run a phase, print the report.

The report is one JSON document (schema 1 of the load tools: engine_src/load/README.md).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import socket
import sys
import time
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from perfrunner.workloads.sdk_client.documents import (
    AsStored,
    Documents,
    LoadError,
    Versions,
    compare,
    load_sample,
    verify,
)
from perfrunner.workloads.sdk_client.load import Mix, access, populate

SCHEMA = 1
READY_S = 30.0
BARRIER_S = 60.0  # until the slowest process is connected


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        print(json.dumps(run(options)))
    except LoadError as error:
        print(f"sdk: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="One process of an application, on a range of keys.")
    made.add_argument("--host", required=True)
    made.add_argument("--port", required=True, type=int)
    made.add_argument("--user", required=True)
    made.add_argument("--password-file", required=True, type=Path)
    made.add_argument("--bucket", default="default")
    phases = made.add_subparsers(dest="phase", required=True)
    filling = phases.add_parser("populate")
    loading = phases.add_parser("access")
    reading = phases.add_parser("verify")
    for phase in (filling, loading, reading):
        add_documents(phase)
    for phase in (loading, reading):
        phase.add_argument(
            "--versions", type=Path, required=True, help="file written by access and read by verify"
        )
    loading.add_argument("--set-pct", type=float, default=0.0)
    loading.add_argument("--duration", type=float, default=0.0, help="duration in seconds")
    loading.add_argument("--num-ops", type=int, help="number of operations, instead of a duration")
    loading.add_argument("--durability", choices=("none", "majority"), default="none")
    loading.add_argument(
        "--barrier", help="HOST:PORT of `kvctl barrier`, where the processes wait for each other"
    )
    reading.add_argument("--copies", type=int, default=1, help="number of copies of each document")
    comparing = phases.add_parser("copies")
    comparing.add_argument(
        "--sample", type=Path, required=True, help="file with documents of the DCP streams"
    )
    return made


def add_documents(phase: argparse.ArgumentParser) -> None:
    """Add the options that select keys and contents."""
    phase.add_argument("--start-at", type=int, default=0, help="number of the first key")
    phase.add_argument("--num-items", type=int, required=True)
    phase.add_argument(
        "--min-size", type=int, required=True, help="minimum bytes of a document's JSON"
    )
    phase.add_argument("--max-size", type=int, required=True)
    phase.add_argument("--random-seed", type=int, required=True, help="seed of the contents")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Connect, run a phase, and return its report."""
    if options.phase != "copies" and options.num_items < 1:
        raise LoadError("this process has no keys: use fewer processes or more items")
    cluster, collection = connect(options)
    try:
        meter = Meter()
        report = PHASES[options.phase](collection, options)
        return {
            "tool": "sdk",
            "schema": SCHEMA,
            "versions": sdk_versions(),
            "populate": None,
            "access": None,
            "client": meter.report(),
            **report,
        }
    finally:
        cluster.close()


def populated(collection: Any, options: argparse.Namespace) -> dict[str, object]:
    meter = Meter()
    numbers = range(options.start_at, options.start_at + options.num_items)
    stored = populate(collection, documents_of(options), numbers)
    return {"populate": {"ops": stored, "sets": stored, "seconds": meter.seconds}}


def accessed(collection: Any, options: argparse.Namespace) -> dict[str, object]:
    documents = documents_of(options)
    versions = Versions.populated(options.start_at, options.num_items)
    seed = zlib.crc32(f"{options.random_seed}/{options.start_at}".encode())
    mix = Mix(options.set_pct, options.duration, options.num_ops, seed)
    how = write_options(options.durability)
    if options.barrier:
        wait_at(options.barrier)
    meter = Meter()
    traffic = access(collection, documents, versions, mix, how)
    client = meter.report()  # excludes writing the file
    versions.save(options.versions)
    return {"access": traffic.report(), "client": client}


def verified(collection: Any, options: argparse.Namespace) -> dict[str, object]:
    versions = Versions.load(options.versions)
    return {"verify": verify(collection, documents_of(options), versions, options.copies)}


def compared(collection: Any, options: argparse.Namespace) -> dict[str, object]:
    from couchbase.options import GetAllReplicasOptions

    how = [GetAllReplicasOptions(transcoder=AsStored())]
    return {"verify": compare(collection, load_sample(options.sample), how)}


PHASES = {"populate": populated, "access": accessed, "verify": verified, "copies": compared}


def documents_of(options: argparse.Namespace) -> Documents:
    return Documents(options.random_seed, options.min_size, options.max_size)


def connect(options: argparse.Namespace) -> tuple[Any, Any]:
    """Connect with the default options of the SDK; return the cluster and the bucket's default collection."""
    from couchbase.auth import PasswordAuthenticator
    from couchbase.cluster import Cluster
    from couchbase.options import ClusterOptions

    password = options.password_file.read_text("utf-8")
    host = f"[{options.host}]" if ":" in options.host else options.host
    cluster = Cluster(
        f"couchbase://{host}:{options.port}",
        ClusterOptions(PasswordAuthenticator(options.user, password)),
    )
    cluster.wait_until_ready(timedelta(seconds=READY_S))
    return cluster, cluster.bucket(options.bucket).default_collection()


def write_options(durability: str) -> tuple[Any, ...]:
    """Return the arguments of an upsert that follow key and document."""
    if durability == "none":
        return ()
    from couchbase.durability import Durability, ServerDurability
    from couchbase.options import UpsertOptions

    return (UpsertOptions(durability=ServerDurability(Durability[durability.upper()])),)


def wait_at(barrier: str) -> None:
    """Wait at the barrier (kvctl barrier) for all processes: send a byte when ready, receive one to continue."""
    host, _, port = barrier.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=BARRIER_S) as link:
            link.sendall(b"r")
            released = link.recv(1)
    except OSError as error:
        raise LoadError(f"not all processes were ready within {BARRIER_S:g} s: {error}") from error
    if not released:
        raise LoadError("the barrier closed the connection before all processes were ready")


class Meter:
    """A meter of the time and CPU that this process uses from its creation."""

    def __init__(self) -> None:
        self._wall, self._thread = time.perf_counter(), time.thread_time()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def report(self) -> dict[str, object]:
        """Return the CPU times of all threads, including the SDK's, and how busy the calling thread was."""
        now, seconds = resource.getrusage(resource.RUSAGE_SELF), self.seconds
        return {
            "cpu_user_s": now.ru_utime - self._usage.ru_utime,
            "cpu_sys_s": now.ru_stime - self._usage.ru_stime,
            "wall_s": seconds,
            "threads": 1,
            "busiest_thread_busy": min(1.0, (time.thread_time() - self._thread) / seconds),
        }


def sdk_versions() -> dict[str, str]:
    import couchbase

    return {"python": platform.python_version(), "couchbase": couchbase.__version__}
