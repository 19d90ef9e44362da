"""A sample of any documents, read from every node that has a copy, and compared with what DCP showed there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from perfrunner.workloads.sdk_client.errors import is_late

SHOWN = 3  # documents that a message names


@dataclass(frozen=True)
class Shown:
    """A document as a node's DCP stream has it; `crc` of its value."""

    key: str
    cas: int
    crc: int
    copies: int  # nodes that have it


class Copies(NamedTuple):
    """CAS and value of each copy of a document that was found, or why they cannot be read."""

    contents: Sequence[tuple[int, Any]]
    error: Exception | None = None

    def complaint(self, expected: int) -> str:
        """Empty where there are as many as there should be."""
        if self.error is not None:
            return f"its copies cannot be read ({type(self.error).__name__})"
        found = len(self.contents)
        return "" if found == expected else f"expected {expected} copies, found {found}"


class AsStored:
    """The SDK's transcoder that takes every value for bytes: those of pillowfight are no JSON."""

    def encode_value(self, value: Any) -> tuple[bytes, int]:
        raise NotImplementedError("nothing is written")

    def decode_value(self, value: bytes, flags: int) -> bytes:  # noqa: ARG002 - the SDK's signature
        return bytes(value)


def load_sample(path: Path) -> list[Shown]:
    """Of the JSON that perfrunner left: [[key, CAS, CRC-32 of the value, copies], ...]."""
    return [Shown(*one) for one in json.loads(path.read_text("utf-8"))]


def compare(
    collection: Any, sample: Sequence[Shown], options: Sequence[Any] = ()
) -> dict[str, object]:
    """How many documents were read on all their nodes, how many are not there as shown, the first of those in words.

    `options` are those of get_all_replicas beside the key: `AsStored` as transcoder, with the real SDK.
    """
    complaints = [complaint(collection, one, options) for one in sample]
    wrong = [text for text in complaints if text]
    return {"documents": len(sample), "wrong": len(wrong), "examples": wrong[:SHOWN]}


def complaint(collection: Any, shown: Shown, options: Sequence[Any]) -> str:
    """What is wrong with the copies of a document; empty where nothing is. Replicas have caught up by now.

    What had no answer in the SDK's time is asked for once more; one late copy among others is left out without a word.
    """
    found = read_copies(collection, shown.key, options)
    if is_late(found.error) if found.error else len(found.contents) < shown.copies:
        found = read_copies(collection, shown.key, options)
    if said := found.complaint(shown.copies):
        return f"{shown.key}: {said}"
    for cas, value in found.contents:
        if cas != shown.cas:
            return f"{shown.key}: a copy has the CAS {cas}, by DCP it is {shown.cas}"
        if zlib.crc32(value) != shown.crc:
            return f"{shown.key}: a copy has another value than by DCP"
    return ""


def read_copies(collection: Any, key: str, options: Sequence[Any] = ()) -> Copies:
    """Each from its own node."""
    try:
        found = collection.get_all_replicas(key, *options)
        return Copies([(one.cas, one.value) for one in found])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told as this document's
        return Copies([], error)
