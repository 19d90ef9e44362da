"""Run the phases populate (writes in batches) and access (single operations, timed, counted and compared)."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfrunner.workloads.sdk_client.documents import (
    AMBIGUOUS,
    MISSING,
    Documents,
    LoadError,
    Versions,
    batches,
    complaint,
    expected_kind,
    is_late,
)

LINEAR_BITS = 11  # of a histogram: 2048 linear values, then 1024 buckets per doubling
MOST_NS = (1 << 40) - 1


def bucket(value: int) -> int:
    """Return the largest value in the bucket of `value`; the layout is that of engine_src/load/core/histogram.h."""
    value = min(value, MOST_NS)
    shift = value.bit_length() - LINEAR_BITS
    return value if shift <= 0 else (((value >> shift) + 1) << shift) - 1


@dataclass
class Histogram:
    """A histogram of latencies in ns."""

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
    """The counters of a phase of reads and writes. `ops` includes failed operations."""

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
        """Count an operation that ended in this second (from 0) of the phase, including its last instant."""
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


@dataclass(frozen=True)
class Mix:
    """The mix of operations of `access`, which ends after `seconds`, or after `operations` if given."""

    set_share: float  # percent
    seconds: float
    operations: int | None
    seed: int


def populate(collection: Any, documents: Documents, numbers: Sequence[int]) -> int:
    """Store version 0 of all documents and return their number. Raises LoadError if one is not stored.

    The SDK retries by itself. Only documents that timed out are stored again: on a busy machine the SDK may hold a
    request (with opaque 0) until it times out.
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
    """Read and write random keys of this process. Raises LoadError if a read differs from the last write."""
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
    """A client that times and counts single operations. Its methods return the time when the operation ended."""

    collection: Any
    documents: Documents
    versions: Versions
    write_options: Sequence[Any]
    clock: Callable[[], int]
    traffic: Traffic = field(default_factory=Traffic)

    def write(self, number: int) -> int:
        """Write the next version of a document."""
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
        """Read a document and compare it with the last write."""
        key = self.documents.key(number)
        begun = self.clock()
        try:
            value = self.collection.get(key).value
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
            if wrong := complaint(value, self.documents, self.versions, number):
                raise LoadError(f"a read returned a wrong document: {wrong}")
        self.traffic.gets += 1
        self.traffic.get_ns.record(ended - begun)
        return ended
