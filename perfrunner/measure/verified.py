"""What the SDK's program reported: documents that were read back and compared with what they have to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA


@dataclass(frozen=True)
class Verified:
    """`examples` are the first of the `wrong` ones, in words."""

    documents: int
    wrong: int
    examples: tuple[str, ...] = ()


def parse_verified(text: str, where: str) -> Verified:
    """Raises TrialError naming `where`."""
    try:
        document = json.loads(text)
        found = document["verify"]
        if (document["tool"], document["schema"]) != ("sdk", SCHEMA):
            raise ValueError(f"tool {document['tool']!r}, schema {document['schema']!r}")
        return Verified(
            int(found["documents"]), int(found["wrong"]), tuple(map(str, found["examples"]))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TrialError(f"{where} is no report of a verification: {error!r}") from None


def check_verified(
    reports: Mapping[str, str], items: int, when: str, wanted: str = "as last written"
) -> int:
    """How many documents were compared, over all processes.

    `reports` by file name; `when` says after what or how. TrialError, with the first examples, where one is not as
    `wanted`, or where not all of the `items` were looked at.
    """
    found = [parse_verified(text, name) for name, text in reports.items()]
    documents, wrong = sum(one.documents for one in found), sum(one.wrong for one in found)
    if wrong:
        shown = [example for one in found for example in one.examples][:3]
        raise TrialError(
            f"{when}, {wrong} of {documents} documents are not {wanted}: {'; '.join(shown)}"
        )
    if documents != items:
        raise TrialError(f"{when}, {documents} of {items} documents were compared")
    return documents
