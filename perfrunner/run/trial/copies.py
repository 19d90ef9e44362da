"""`engine.verify`: all copies of a trial's documents compared by DCP, and a sample of them by the Couchbase SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Literal

from perfrunner.errors import TrialError
from perfrunner.measure.verified import check_verified
from perfrunner.run.trial.nodes import Sampled
from perfrunner.run.trial.serverbench import Bench
from perfrunner.workloads.bench import Share
from perfrunner.workloads.sdk_program import sdk_program

SAMPLE = "sample"  # the file's name on a load client


def verify_copies(bench: Bench, how: Literal["replicas", "sdk"]) -> dict[str, int]:
    """The facts of the check. TrialError, with the first copies that differ, where one is not as it should be."""
    checked = bench.nodes.verify()
    facts = {"documents": checked.documents, "copies": checked.copies}
    if how == "sdk":
        facts["by_sdk"] = _read_by_sdk(bench, checked.sample)
    return facts


def _read_by_sdk(bench: Bench, sample: Sequence[Sampled]) -> int:
    """One document of every vBucket that has any, from every node with a copy; each load client reads its share."""
    if not sample:
        raise TrialError(
            "kvctl digest names no document that the SDK could read",
            hint="the bucket is empty, or the tools are of an engine before `verify: sdk`",
        )
    count = len(bench.seats)
    for index, seat in enumerate(bench.seats):
        text = json.dumps([list(astuple(one)) for one in sample[index::count]])
        path = bench.kept_for(Share(index, count), SAMPLE)
        seat.host.put_bytes(text.encode(), path)
        bench.recorder.write_file(seat.host.name, path, text)

    def arguments(share: Share) -> list[str]:
        return ["copies", f"--sample={bench.kept_for(share, SAMPLE)}"]

    texts = bench.load_program(sdk_program(), arguments, output="verify-copies", processes=1)
    return check_verified(texts, len(sample), "read by the SDK", "as DCP shows them")
