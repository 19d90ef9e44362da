"""Generate and verify documents: their keys and contents, the version of each on the server, and the errors of the SDK.

They are compared with the last writes, and a sample of them on every node that has a copy.
"""

from __future__ import annotations

import json
import random
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

BATCH = 500  # documents per multi-operation; fewer if they are large
BATCH_BYTES = 4 << 20
POOL = 65_521  # length of the text from which bodies are cut


class Documents:
    """A generator of keys and documents, determined by seed and sizes.

    Sizes are bytes of JSON, from `smallest` to `largest`.
    """

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
        document: dict[str, object] = {"key": self.key(number), "version": version, "body": ""}
        start = drawn % POOL
        document["body"] = self._text[start : start + size - len(json.dumps(document))]
        return document

    @property
    def batch(self) -> int:
        """Return the number of documents per multi-operation."""
        return max(1, min(BATCH, BATCH_BYTES // self.largest))


class Versions:
    """The version of each key of a range on the server; several are possible after an ambiguous write."""

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


def batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for begin in range(0, len(numbers), size):
        yield numbers[begin : begin + size]


MISSING = "DocumentNotFoundException"
# Errors of a busy or unreachable server: they are counted, and the load continues.
EXPECTED = {
    "AmbiguousTimeoutException": "timeout_ambiguous",
    "UnAmbiguousTimeoutException": "timeout",
    "TemporaryFailException": "temporary_failure",
    "RequestCanceledException": "canceled",
    "DurabilitySyncWriteAmbiguousException": "durability_ambiguous",
    "DurabilitySyncWriteInProgressException": "durability_in_progress",
}
LATE = {"timeout_ambiguous", "timeout"}
# After these errors it is unknown whether the write succeeded.
AMBIGUOUS = {"timeout_ambiguous", "canceled", "durability_ambiguous"}


class LoadError(Exception):
    """An error that ends the process with status 1 and a message."""


def expected_kind(error: Exception) -> str | None:
    """Return the kind of an error that is counted; None for one that ends the load."""
    return EXPECTED.get(type(error).__name__)


def is_late(result: object) -> bool:
    """Return whether a result is a time-out of the SDK."""
    return isinstance(result, Exception) and expected_kind(result) in LATE


SAMPLED = 50  # documents per process whose copies are read on every node
COPIES_S = 20.0  # time for the replicas to receive the last writes


def verify(
    collection: Any, documents: Documents, versions: Versions, copies: int = 1
) -> dict[str, object]:
    """Compare all documents with the last writes; return the number of documents, of errors, and examples.

    With several `copies`, a sample is also read from every node that has a copy. `again` counts documents that were
    read a second time after a time-out (see populate): this phase checks contents, not response times.
    """
    wrong = again = 0
    examples: list[str] = []
    for batch in batches(versions.numbers, documents.batch):
        values = contents(collection, [documents.key(number) for number in batch])
        late = [key for key, value in values.items() if is_late(value)]
        again += len(late)
        values.update((key, alone(collection, key)) for key in late)
        for number in batch:
            text = complaint(values[documents.key(number)], documents, versions, number)
            if text:
                wrong += 1
                examples += [text] if len(examples) < SHOWN else []
    sample = versions.numbers[:: -(-len(versions.numbers) // SAMPLED)] if copies > 1 else range(0)
    until = time.monotonic() + COPIES_S
    for number in sample:
        while (
            text := copies_complaint(collection, documents, versions, number, copies)
        ) and time.monotonic() < until:
            time.sleep(0.05)  # writers do not wait for replication
        if text:
            wrong += 1
            examples += [text] if len(examples) < SHOWN else []
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
    """Return what is wrong with the copies of a document, each read from its node; empty if nothing is."""
    key = documents.key(number)
    read = read_copies(collection, key)
    if text := read.complaint(copies):
        return f"{key}: {text}"
    if len({cas for cas, _ in read.contents}) > 1:
        return f"{key}: its copies differ in their CAS"
    every = (complaint(value, documents, versions, number) for _, value in read.contents)
    return next(filter(None, every), "")


def contents(collection: Any, keys: Sequence[str]) -> dict[str, object]:
    """Read documents; return each document, or its error, by key."""
    try:
        answer = collection.get_multi(keys)
        return {
            **{key: result.value for key, result in answer.results.items()},
            **answer.exceptions,
        }
    except Exception:  # noqa: BLE001 - a value that is not JSON fails the batch, so read one by one
        return {key: alone(collection, key) for key in keys}


def alone(collection: Any, key: str) -> object:
    try:
        return collection.get(key).value
    except Exception as error:  # noqa: BLE001 - reported as a problem of this document
        return error


def complaint(value: object, documents: Documents, versions: Versions, number: int) -> str:
    """Return how a value (or error) read for a key differs from the last write; empty if it does not."""
    possible = versions.possible(number)
    if any(value == documents.document(number, version) for version in possible):
        return ""
    wanted = " or ".join(str(version) for version in possible)
    if isinstance(value, Exception):
        name = type(value).__name__
        got = "it is missing" if name == MISSING else f"it cannot be read ({name})"
    elif isinstance(value, dict) and isinstance(version := value.get("version"), int):
        intact = version >= 0 and value == documents.document(number, version)
        got = f"it is version {version}" + ("" if intact else " with different content")
    else:
        got = "it is another document"
    return f"{documents.key(number)}: expected version {wanted}, {got}"


SHOWN = 3  # maximum number of documents that a message names


@dataclass(frozen=True)
class Shown:
    """A document as the DCP stream of a node shows it; `crc` is the CRC-32 of its value."""

    key: str
    cas: int
    crc: int
    copies: int  # number of nodes that have it


class Copies(NamedTuple):
    """The (CAS, value) of each copy of a document, or the error that prevented reading them."""

    contents: Sequence[tuple[int, Any]]
    error: Exception | None = None

    def complaint(self, expected: int) -> str:
        """Return what is wrong with the number of copies; empty if it is as expected."""
        if self.error is not None:
            return f"its copies cannot be read ({type(self.error).__name__})"
        count = len(self.contents)
        return "" if count == expected else f"expected {expected} copies, found {count}"


class AsStored:
    """A transcoder for the SDK that returns every value as bytes: values of pillowfight are not JSON."""

    def encode_value(self, value: Any) -> tuple[bytes, int]:
        raise NotImplementedError("this transcoder only reads")

    def decode_value(self, value: bytes, flags: int) -> bytes:  # noqa: ARG002 - the SDK's signature
        return bytes(value)


def load_sample(path: Path) -> list[Shown]:
    """Load the JSON sample that perfrunner wrote: [[key, CAS, CRC-32 of the value, copies], ...]."""
    return [Shown(*row) for row in json.loads(path.read_text("utf-8"))]


def compare(
    collection: Any, sample: Sequence[Shown], options: Sequence[Any] = ()
) -> dict[str, object]:
    """Compare the sample on all nodes; return the numbers of documents and of differences, and the first examples.

    `options` are further arguments of get_all_replicas: with the real SDK, `AsStored` as transcoder.
    """
    complaints = [sample_complaint(collection, shown, options) for shown in sample]
    wrong = [text for text in complaints if text]
    return {"documents": len(sample), "wrong": len(wrong), "examples": wrong[:SHOWN]}


def sample_complaint(collection: Any, shown: Shown, options: Sequence[Any]) -> str:
    """Return what is wrong with the copies of a document; empty if nothing is. Replicas have caught up by now.

    A read that timed out is repeated once. It is also repeated if a copy is missing, because the SDK silently omits a
    late copy.
    """
    copies = read_copies(collection, shown.key, options)
    if is_late(copies.error) if copies.error else len(copies.contents) < shown.copies:
        copies = read_copies(collection, shown.key, options)
    if text := copies.complaint(shown.copies):
        return f"{shown.key}: {text}"
    for cas, value in copies.contents:
        if cas != shown.cas:
            return f"{shown.key}: a copy has the CAS {cas}, but DCP showed {shown.cas}"
        if zlib.crc32(value) != shown.crc:
            return f"{shown.key}: the value of a copy differs from DCP"
    return ""


def read_copies(collection: Any, key: str, options: Sequence[Any] = ()) -> Copies:
    """Read every copy of a document, each from its node."""
    try:
        replicas = collection.get_all_replicas(key, *options)
        return Copies([(replica.cas, replica.value) for replica in replicas])
    except Exception as error:  # noqa: BLE001 - reported as a problem of this document
        return Copies([], error)
