"""Read a sample of documents from every node that has a copy, and compare it with the DCP streams."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from perfrunner.workloads.sdk_client.errors import is_late

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
    complaints = [complaint(collection, shown, options) for shown in sample]
    wrong = [text for text in complaints if text]
    return {"documents": len(sample), "wrong": len(wrong), "examples": wrong[:SHOWN]}


def complaint(collection: Any, shown: Shown, options: Sequence[Any]) -> str:
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
