"""The program behind `type: sdk`: one process of an application that uses the Couchbase Python SDK.

perfrunner copies this file to the load clients and runs it there with their Python: it needs the standard library and
the package `couchbase`, and nothing of perfrunner. Each process has a connection and a range of keys of its own and one
operation under way. It prints one JSON document (schema 1 of the load tools: engine_src/load/README.md).

    populate   every key once, in batches, as version 0
    access     reads and writes of random keys; every read is compared with what was last written
    verify     every key is read and compared; the versions come from the file that `access` left

What is stored under a key in a version follows from the seed, so whoever knows the versions knows all contents.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import socket
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

SCHEMA = 1
READY_S = 30.0
BARRIER_S = 60.0  # for the slowest process to connect
BATCH = 500  # documents of a multi-operation, fewer where they are large
BATCH_BYTES = 4 << 20
SHOWN = 3  # documents that a message names
SAMPLED = 50  # of a process's documents, whose copies are read on every node
COPIES_S = 20.0  # for replicas to get what was written last
POOL = 65_521  # characters of text that bodies are cut from
LINEAR_BITS = 11  # of a histogram: 2048 linear values, then 1024 buckets a doubling
MOST_NS = (1 << 40) - 1

MISSING = "DocumentNotFoundException"
# What an application has to expect of a server that is busy or away: counted, and the load goes on.
EXPECTED = {
    "AmbiguousTimeoutException": "timeout_ambiguous",
    "UnAmbiguousTimeoutException": "timeout",
    "TemporaryFailException": "temporary_failure",
    "RequestCanceledException": "canceled",
    "DurabilitySyncWriteAmbiguousException": "durability_ambiguous",
    "DurabilitySyncWriteInProgressException": "durability_in_progress",
}
LATE = {"timeout_ambiguous", "timeout"}
# After these nobody knows whether the write was made.
AMBIGUOUS = {"timeout_ambiguous", "canceled", "durability_ambiguous"}


class LoadError(Exception):
    """Why the process ends with status 1, for people."""


def expected_kind(error: Exception) -> str | None:
    """The kind of an error that is counted; None for one that ends the load."""
    return EXPECTED.get(type(error).__name__)


# -- what is stored


class Documents:
    """Keys and documents: the same for the same seed and sizes (bytes of JSON, from `smallest` to `largest`)."""

    def __init__(self, seed: int, smallest: int, largest: int) -> None:
        self.seed, self.smallest, self.largest = seed, smallest, largest
        digits = "".join(random.Random(seed).choices("0123456789abcdef", k=POOL))
        self._text = digits * (1 + -(-largest // POOL))

    @staticmethod
    def key(number: int) -> str:
        return f"sdk-{number:012d}"

    def document(self, number: int, version: int) -> dict[str, object]:
        drawn = zlib.crc32(f"{self.seed}/{number}/{version}".encode())
        size = self.smallest + drawn % (self.largest - self.smallest + 1)
        found: dict[str, object] = {"key": self.key(number), "version": version, "body": ""}
        start = drawn % POOL
        found["body"] = self._text[start : start + size - len(json.dumps(found))]
        return found

    @property
    def batch(self) -> int:
        """Documents of a multi-operation."""
        return max(1, min(BATCH, BATCH_BYTES // self.largest))


class Versions:
    """Which version of each key of a range the server has; several where the end of a write is not known."""

    def __init__(self, start: int, last: list[int], unsure: dict[int, list[int]]) -> None:
        self.start, self._last, self._unsure = start, last, unsure

    @classmethod
    def populated(cls, start: int, count: int) -> Versions:
        return cls(start, [0] * count, {})

    @property
    def numbers(self) -> range:
        return range(self.start, self.start + len(self._last))

    def possible(self, number: int) -> list[int]:
        return [self._last[number - self.start], *self._unsure.get(number, ())]

    def next(self, number: int) -> int:
        return max(self.possible(number)) + 1

    def written(self, number: int, version: int) -> None:
        self._last[number - self.start] = version
        self._unsure.pop(number, None)

    def maybe_written(self, number: int, version: int) -> None:
        self._unsure.setdefault(number, []).append(version)

    def save(self, path: Path) -> None:
        document = {
            "start": self.start,
            "last": self._last,
            "unsure": list(self._unsure.items()),
        }
        path.write_text(json.dumps(document, separators=(",", ":")), "utf-8")

    @classmethod
    def load(cls, path: Path) -> Versions:
        document = json.loads(path.read_text("utf-8"))
        return cls(document["start"], document["last"], dict(document["unsure"]))


# -- what is counted


def bucket(value: int) -> int:
    """The largest value that shares `value`'s bucket: the layout of engine_src/load/histogram.h."""
    value = min(value, MOST_NS)
    shift = value.bit_length() - LINEAR_BITS
    return value if shift <= 0 else (((value >> shift) + 1) << shift) - 1


@dataclass
class Histogram:
    """Latencies in ns."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    highest: int = 0

    def record(self, value: int) -> None:
        self.counts[bucket(value)] += 1
        self.total += value
        self.highest = max(self.highest, value)

    def report(self) -> dict[str, object]:
        count = sum(self.counts.values())
        return {
            "count": count,
            "mean": self.total / count if count else 0.0,
            "max": self.highest,
            "buckets": sorted(self.counts.items()),
        }


@dataclass
class Traffic:
    """What a phase of reads and writes did. `ops` are all that came to an end, however."""

    seconds: float = 0.0
    gets: int = 0
    sets: int = 0
    misses: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    per_second: list[int] = field(default_factory=list)
    get_ns: Histogram = field(default_factory=Histogram)
    set_ns: Histogram = field(default_factory=Histogram)

    @property
    def ops(self) -> int:
        return self.gets + self.sets

    def ended(self, second: int) -> None:
        """An operation ended in that second (from 0) of the phase; at its very end is still in it."""
        self.per_second.extend([0] * (second + 1 - len(self.per_second)))
        self.per_second[second] += 1

    def report(self) -> dict[str, object]:
        whole = int(self.seconds)
        ends = [float(second) for second in range(1, whole + 1)]
        if self.seconds > whole:
            ends.append(self.seconds)
        counts = self.per_second + [0] * (len(ends) - len(self.per_second))
        return {
            "ops": self.ops,
            "gets": self.gets,
            "sets": self.sets,
            "misses": self.misses,
            "errors": dict(self.errors),
            "seconds": self.seconds,
            "series": [{"t": t, "ops": n} for t, n in zip(ends, counts, strict=True)],
            "latency_ns": {"get": self.get_ns.report(), "set": self.set_ns.report()},
        }


# -- the phases


@dataclass(frozen=True)
class Mix:
    """Of `access`: until `seconds` have passed, or `operations` are done where that is given."""

    set_share: float  # percent
    seconds: float
    operations: int | None
    seed: int


def populate(collection: Any, documents: Documents, numbers: Sequence[int]) -> int:
    """How many documents were stored. LoadError when one was not: the SDK has tried again already.

    Except those that it kept until their time was over: seen on a busy machine, with opaque 0.
    """
    for batch in batches(numbers, documents.batch):
        wanted = {documents.key(number): documents.document(number, 0) for number in batch}
        refused = collection.upsert_multi(wanted).exceptions
        if late := {key: wanted[key] for key, error in refused.items() if is_late(error)}:
            again = collection.upsert_multi(late).exceptions
            refused = {key: e for key, e in refused.items() if key not in late} | again
        if refused:
            key, error = next(iter(refused.items()))
            raise LoadError(f"{len(refused)} documents cannot be stored; {key}: {error}")
    return len(numbers)


def access(
    collection: Any,
    documents: Documents,
    versions: Versions,
    mix: Mix,
    write_options: Sequence[Any] = (),
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Traffic:
    """One operation after the other on keys of our own. LoadError when a read shows what was not last written."""
    caller = Caller(collection, documents, versions, write_options, clock)
    traffic = caller.traffic
    draws = random.Random(mix.seed)
    numbers = versions.numbers
    begun = now = clock()
    until = begun + round(mix.seconds * 1e9)
    while traffic.ops < mix.operations if mix.operations is not None else now < until:
        number = numbers[int(draws.random() * len(numbers))]
        writes = draws.random() * 100.0 < mix.set_share
        now = caller.write(number) if writes else caller.read(number)
        traffic.ended(max(0, now - begun - 1) // 1_000_000_000)
    traffic.seconds = (now - begun) / 1e9
    return traffic


@dataclass
class Caller:
    """Does single operations, times and counts them. What a method gives is the time when its operation ended."""

    collection: Any
    documents: Documents
    versions: Versions
    write_options: Sequence[Any]
    clock: Callable[[], int]
    traffic: Traffic = field(default_factory=Traffic)

    def write(self, number: int) -> int:
        """The next version of a document."""
        version = self.versions.next(number)
        key, document = self.documents.key(number), self.documents.document(number, version)
        begun = self.clock()
        try:
            self.collection.upsert(key, document, *self.write_options)
        except Exception as error:
            ended = self.clock()
            kind = expected_kind(error)
            if kind is None:
                raise
            self.traffic.errors[kind] += 1
            if kind in AMBIGUOUS:
                self.versions.maybe_written(number, version)
        else:
            ended = self.clock()
            self.versions.written(number, version)
        self.traffic.sets += 1
        self.traffic.set_ns.record(ended - begun)
        return ended

    def read(self, number: int) -> int:
        """A document, compared with what it has to be."""
        key = self.documents.key(number)
        begun = self.clock()
        try:
            found = self.collection.get(key).value
            ended = self.clock()
        except Exception as error:
            ended = self.clock()
            kind = expected_kind(error)
            if type(error).__name__ == MISSING:
                self.traffic.misses += 1
            elif kind is not None:
                self.traffic.errors[kind] += 1
            else:
                raise
        else:
            if wrong := complaint(found, self.documents, self.versions, number):
                raise LoadError(f"a read went wrong: {wrong}")
        self.traffic.gets += 1
        self.traffic.get_ns.record(ended - begun)
        return ended


def verify(
    collection: Any, documents: Documents, versions: Versions, copies: int = 1
) -> dict[str, object]:
    """How many documents were compared, how many are not what was last written, and the first of those in words.

    With several `copies` a sample is read from every node that has one, too. `again`: how many were read a second time,
    because their time was over (see populate); contents are compared here, not service.
    """
    wrong = again = 0
    examples: list[str] = []
    for batch in batches(versions.numbers, documents.batch):
        found = contents(collection, [documents.key(number) for number in batch])
        late = [key for key, one in found.items() if is_late(one)]
        again += len(late)
        found.update((key, alone(collection, key)) for key in late)
        for number in batch:
            said = complaint(found[documents.key(number)], documents, versions, number)
            if said:
                wrong += 1
                examples += [said] if len(examples) < SHOWN else []
    sample = versions.numbers[:: -(-len(versions.numbers) // SAMPLED)] if copies > 1 else range(0)
    until = time.monotonic() + COPIES_S
    for number in sample:
        while (
            said := copies_complaint(collection, documents, versions, number, copies)
        ) and time.monotonic() < until:
            time.sleep(0.05)  # replication is not waited for by who writes
        if said:
            wrong += 1
            examples += [said] if len(examples) < SHOWN else []
    return {
        "documents": len(versions.numbers),
        "wrong": wrong,
        "examples": examples,
        "sampled": len(sample),
        "again": again,
    }


def copies_complaint(
    collection: Any, documents: Documents, versions: Versions, number: int, copies: int
) -> str:
    """What is wrong with the copies of a document, each read from its own node; empty where nothing is."""
    key = documents.key(number)
    try:
        found = list(collection.get_all_replicas(key))
        contents = [one.value for one in found]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told as this document's
        return f"{key}: its copies cannot be read ({type(error).__name__})"
    if len(found) != copies:
        return f"{key}: expected {copies} copies, found {len(found)}"
    if len({one.cas for one in found}) > 1:
        return f"{key}: its copies differ in their CAS"
    return next(filter(None, (complaint(c, documents, versions, number) for c in contents)), "")


def contents(collection: Any, keys: Sequence[str]) -> dict[str, object]:
    """By key: the document, or the error in its place."""
    try:
        answer = collection.get_multi(keys)
        return {**{key: one.value for key, one in answer.results.items()}, **answer.exceptions}
    except Exception:  # noqa: BLE001 - one that is no JSON at all spoils the batch: each alone then
        return {key: alone(collection, key) for key in keys}


def is_late(found: object) -> bool:
    """An error of the SDK's own clock."""
    return isinstance(found, Exception) and expected_kind(found) in LATE


def alone(collection: Any, key: str) -> object:
    try:
        return collection.get(key).value
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told as this document's
        return error


def complaint(found: object, documents: Documents, versions: Versions, number: int) -> str:
    """What is wrong with what was found under a key; empty where it is as it should be."""
    possible = versions.possible(number)
    if any(found == documents.document(number, version) for version in possible):
        return ""
    wanted = " or ".join(str(version) for version in possible)
    if isinstance(found, Exception):
        name = type(found).__name__
        got = "it is missing" if name == MISSING else f"it cannot be read ({name})"
    elif isinstance(found, dict) and isinstance(version := found.get("version"), int):
        whole = version >= 0 and found == documents.document(number, version)
        got = f"it is version {version}" + ("" if whole else " with another content")
    else:
        got = "it is another document"
    return f"{documents.key(number)}: expected version {wanted}, {got}"


def batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for begin in range(0, len(numbers), size):
        yield numbers[begin : begin + size]


# -- the process


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
    made.add_argument("phase", choices=("populate", "access", "verify"))
    made.add_argument("--host", required=True)
    made.add_argument("--port", required=True, type=int)
    made.add_argument("--user", required=True)
    made.add_argument("--password-file", required=True, type=Path)
    made.add_argument("--bucket", default="default")
    made.add_argument("--start-at", type=int, default=0, help="the first key")
    made.add_argument("--num-items", type=int, required=True)
    made.add_argument("--min-size", type=int, required=True, help="bytes of a document's JSON")
    made.add_argument("--max-size", type=int, required=True)
    made.add_argument("--random-seed", type=int, required=True, help="of the contents")
    made.add_argument("--set-pct", type=float, default=0.0)
    made.add_argument("--duration", type=float, default=0.0, help="seconds")
    made.add_argument("--num-ops", type=int, help="instead of a duration")
    made.add_argument("--durability", choices=("none", "majority"), default="none")
    made.add_argument("--versions", type=Path, help="file: access writes it, verify reads it")
    made.add_argument(
        "--copies", type=int, default=1, help="verify: of each document, on as many nodes"
    )
    made.add_argument("--barrier", help="HOST:PORT of `kvctl barrier`: begin together")
    return made


def run(options: argparse.Namespace) -> dict[str, object]:
    """The report of a phase."""
    if options.num_items < 1:
        raise LoadError("no keys are left for this process: fewer processes, or more items")
    documents = Documents(options.random_seed, options.min_size, options.max_size)
    cluster, collection = connect(options)
    try:
        meter = Meter()
        report: dict[str, object] = {"populate": None, "access": None}
        if options.phase == "populate":
            numbers = range(options.start_at, options.start_at + options.num_items)
            stored = populate(collection, documents, numbers)
            report["populate"] = {"ops": stored, "sets": stored, "seconds": meter.seconds}
        elif options.phase == "access":
            versions = Versions.populated(options.start_at, options.num_items)
            seed = zlib.crc32(f"{options.random_seed}/{options.start_at}".encode())
            mix = Mix(options.set_pct, options.duration, options.num_ops, seed)
            how = write_options(options.durability)
            if options.barrier:
                wait_at(options.barrier)
            meter = Meter()
            traffic = access(collection, documents, versions, mix, how)
            report["access"] = traffic.report()
            report["client"] = meter.report()  # before the file is written
            versions.save(options.versions)
        else:
            report["verify"] = verify(
                collection, documents, Versions.load(options.versions), options.copies
            )
        return {
            "tool": "sdk",
            "schema": SCHEMA,
            "versions": sdk_versions(),
            "client": meter.report(),
            **report,
        }
    finally:
        cluster.close()


def connect(options: argparse.Namespace) -> tuple[Any, Any]:
    """The cluster and the bucket's default collection, ready; the SDK's own defaults in everything."""
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
    """What an upsert is given beside key and document."""
    if durability == "none":
        return ()
    from couchbase.durability import Durability, ServerDurability
    from couchbase.options import UpsertOptions

    return (UpsertOptions(durability=ServerDurability(Durability[durability.upper()])),)


def wait_at(barrier: str) -> None:
    """Until all processes are there: a byte says that we are, another one lets us go (kvctl barrier)."""
    host, _, port = barrier.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=BARRIER_S) as link:
            link.sendall(b"r")
            let_go = link.recv(1)
    except OSError as error:
        raise LoadError(f"not all processes were ready within {BARRIER_S:g} s: {error}") from error
    if not let_go:
        raise LoadError("the barrier went away before all were ready")


class Meter:
    """What this process costs from here on."""

    def __init__(self) -> None:
        self._wall, self._thread = time.perf_counter(), time.thread_time()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def report(self) -> dict[str, object]:
        """CPU of all threads, the SDK's own too; busy is the one that calls it."""
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


if __name__ == "__main__":
    sys.exit(main())
