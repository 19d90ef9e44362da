"""Check the report of the SDK's program, which compares documents that it read back with the expected ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA


@dataclass(frozen=True)
class Verified:
    """The result of a verification. `examples` describe the first of the `wrong` documents."""

    documents: int
    wrong: int
    examples: tuple[str, ...] = ()


def parse_verified(text: str, where: str) -> Verified:
    """Parse a report. Raises TrialError, which names `where`."""
    try:
        document = json.loads(text)
        result = document["verify"]
        if (document["tool"], document["schema"]) != ("sdk", SCHEMA):
            raise ValueError(f"tool {document['tool']!r}, schema {document['schema']!r}")
        return Verified(
            int(result["documents"]), int(result["wrong"]), tuple(map(str, result["examples"]))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TrialError(f"{where} is not a report of a verification: {error!r}") from None


def check_verified(
    reports: Mapping[str, str], items: int, when: str, wanted: str = "as last written"
) -> int:
    """Return the number of documents compared by all processes.

    `reports` are texts by file name. `when` describes the moment of the check for messages. Raises
    TrialError, with examples, if a document is not as `wanted`, or if not all `items` were compared.
    """
    results = [parse_verified(text, name) for name, text in reports.items()]
    documents, wrong = sum(r.documents for r in results), sum(r.wrong for r in results)
    if wrong:
        shown = [example for r in results for example in r.examples][:3]
        raise TrialError(
            f"{when}, {wrong} of {documents} documents are not {wanted}: {'; '.join(shown)}"
        )
    if documents != items:
        raise TrialError(f"{when}, {documents} of {items} documents were compared")
    return documents
