"""Generate keys and documents, track the version of each document on the server, and classify the errors of the SDK."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

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
