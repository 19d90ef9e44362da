"""Run the phases populate (writes in batches) and access (single operations, timed, counted and compared)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfrunner.workloads.sdk_client.documents import Documents, Versions, batches
from perfrunner.workloads.sdk_client.errors import (
    AMBIGUOUS,
    MISSING,
    LoadError,
    expected_kind,
    is_late,
)
from perfrunner.workloads.sdk_client.traffic import Traffic
from perfrunner.workloads.sdk_client.verify import complaint


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
