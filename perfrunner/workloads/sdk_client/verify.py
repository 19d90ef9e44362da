"""Every document read and compared with what was last written, and of some of them every copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from perfrunner.workloads.sdk_client.copies import SHOWN, read_copies
from perfrunner.workloads.sdk_client.documents import Documents, Versions, batches
from perfrunner.workloads.sdk_client.errors import MISSING, is_late

SAMPLED = 50  # of a process's documents, whose copies are read on every node
COPIES_S = 20.0  # for replicas to get what was written last


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
    found = read_copies(collection, key)
    if said := found.complaint(copies):
        return f"{key}: {said}"
    if len({cas for cas, _ in found.contents}) > 1:
        return f"{key}: its copies differ in their CAS"
    every = (complaint(value, documents, versions, number) for _, value in found.contents)
    return next(filter(None, every), "")


def contents(collection: Any, keys: Sequence[str]) -> dict[str, object]:
    """By key: the document, or the error in its place."""
    try:
        answer = collection.get_multi(keys)
        return {**{key: one.value for key, one in answer.results.items()}, **answer.exceptions}
    except Exception:  # noqa: BLE001 - one that is no JSON at all spoils the batch: each alone then
        return {key: alone(collection, key) for key in keys}


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
