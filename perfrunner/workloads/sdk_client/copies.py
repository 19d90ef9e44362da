"""A sample of any documents, read from every node that has a copy, and compared with what DCP showed there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfrunner.workloads.sdk_client.errors import is_late
from perfrunner.workloads.sdk_client.verify import SHOWN


@dataclass(frozen=True)
class Shown:
    """A document as a node's DCP stream has it; `crc` of its value."""

    key: str
    cas: int
    crc: int
    copies: int  # nodes that have it


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
    found = read(collection, shown.key, options)
    if is_late(found) or (not isinstance(found, Exception) and len(found) < shown.copies):
        found = read(collection, shown.key, options)
    if isinstance(found, Exception):
        return f"{shown.key}: its copies cannot be read ({type(found).__name__})"
    if len(found) != shown.copies:
        return f"{shown.key}: expected {shown.copies} copies, found {len(found)}"
    for cas, value in found:
        if cas != shown.cas:
            return f"{shown.key}: a copy has the CAS {cas}, by DCP it is {shown.cas}"
        if zlib.crc32(value) != shown.crc:
            return f"{shown.key}: a copy has another value than by DCP"
    return ""


def read(
    collection: Any, key: str, options: Sequence[Any]
) -> Sequence[tuple[int, bytes]] | Exception:
    """CAS and value of each copy, or why not."""
    try:
        return [(one.cas, one.value) for one in collection.get_all_replicas(key, *options)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told as this document's
        return error
