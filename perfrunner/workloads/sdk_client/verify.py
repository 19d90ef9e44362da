"""Read every document and compare it with the last write; for a sample, compare every copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from perfrunner.workloads.sdk_client.copies import SHOWN, read_copies
from perfrunner.workloads.sdk_client.documents import Documents, Versions, batches
from perfrunner.workloads.sdk_client.errors import MISSING, is_late

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
