"""Implement `engine.verify`: compare all copies of the documents by DCP, and a sample by the Couchbase SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Literal

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.bench import Bench
from perfrunner.experiment.trial.nodes import Sampled
from perfrunner.workloads.bench import Share
from perfrunner.workloads.sdk import check_verified, sdk_program

SAMPLE = "sample"  # name of the file on a load client


def verify_copies(bench: Bench, how: Literal["replicas", "sdk"]) -> dict[str, int]:
    """Compare the copies and return facts. Raises TrialError, with the first differences, if copies differ."""
    checked = bench.nodes.verify()
    facts = {"documents": checked.documents, "copies": checked.copies}
    if how == "sdk":
        facts["by_sdk"] = _read_by_sdk(bench, checked.sample)
    return facts


def _read_by_sdk(bench: Bench, sample: Sequence[Sampled]) -> int:
    """Read the sample from every node that has a copy; each load client reads its share. Return the number read."""
    if not sample:
        raise TrialError(
            "kvctl digest reported no document for the SDK to read",
            hint="the bucket is empty, or the tools are older than `verify: sdk`",
        )
    count = len(bench.placements)
    for index, placement in enumerate(bench.placements):
        text = json.dumps([list(astuple(document)) for document in sample[index::count]])
        path = bench.kept_for(Share(index, count), SAMPLE)
        placement.host.put_bytes(text.encode(), path)
        bench.recorder.write_file(placement.host.name, path, text)

    def arguments(share: Share) -> list[str]:
        return ["copies", f"--sample={bench.kept_for(share, SAMPLE)}"]

    texts = bench.load_program(sdk_program(), arguments, output="verify-copies", processes=1)
    return check_verified(texts, len(sample), "read by the SDK", "as DCP shows them")
