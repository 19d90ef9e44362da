"""The sample of `verify: sdk`: what the load clients read of it, and what a trial makes of their reports."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from couchbase.exceptions import DocumentNotFoundException, UnAmbiguousTimeoutException

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.cluster import Checked, Sampled
from perfrunner.experiment.trial.runner import verify_copies
from perfrunner.measure.client import SCHEMA
from perfrunner.workloads.bench import Share
from perfrunner.workloads.sdk_client.documents import AsStored, Shown, compare, load_sample

BYTES = b"\x00\xff of pillowfight"
SHOWN = Shown("000000000017", 42, zlib.crc32(BYTES), 2)


class Replicas:
    """A collection whose documents have the copies that a test says."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def get_all_replicas(self, key: str) -> list[Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [SimpleNamespace(value=value, cas=cas) for cas, value in answer]


@pytest.mark.parametrize(
    ("copies", "says"),
    [
        ([(42, BYTES), (42, BYTES)], []),
        ([(42, BYTES)], ["expected 2 copies, found 1"]),
        ([(42, BYTES), (43, BYTES)], ["a copy has the CAS 43, but DCP showed 42"]),
        ([(42, b"other"), (42, BYTES)], ["the value of a copy differs from DCP"]),
        (DocumentNotFoundException(), ["its copies cannot be read (DocumentNotFoundException)"]),
    ],
)
def test_the_copies_of_any_document_are_those_that_dcp_shows(copies: Any, says: list[str]) -> None:
    results = compare(Replicas(copies, copies), [SHOWN])
    assert results == {
        "documents": 1,
        "wrong": len(says),
        "examples": [f"{SHOWN.key}: {s}" for s in says],
    }


def test_copies_that_had_no_answer_in_time_are_asked_for_again_and_once_only() -> None:
    late, good = UnAmbiguousTimeoutException(), [(42, BYTES)] * 2
    assert compare(Replicas(late, good), [SHOWN])["wrong"] == 0
    assert compare(Replicas(good[:1], good), [SHOWN])["wrong"] == 0, "one of two was late"
    assert compare(Replicas(late, late), [SHOWN])["wrong"] == 1


def test_a_sample_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.write_text(json.dumps([[SHOWN.key, SHOWN.cas, SHOWN.crc, SHOWN.copies]]))
    assert load_sample(path) == [SHOWN]


def test_values_are_taken_as_they_are_stored() -> None:
    assert AsStored().decode_value(BYTES, 0) == BYTES


class Bench:
    """Two load clients of two nodes: they "read" each sample by `answer`, as compare() would report."""

    def __init__(self, sample: list[Sampled], answer: Any = lambda texts: {"wrong": 0}) -> None:
        self.sample, self.answer = sample, answer
        self.nodes = SimpleNamespace(verify=lambda: Checked(10, 20, sample))
        self.placements = [SimpleNamespace(host=self.host(f"client-{n}")) for n in (1, 2)]
        recorder = SimpleNamespace(write_file=lambda host, path, text: None)
        self.trial = SimpleNamespace(recorder=recorder)
        self.sent: dict[str, str] = {}

    def host(self, name: str) -> Any:
        def put_bytes(data: bytes, path: str) -> None:
            self.sent[f"{name}:{path}"] = data.decode()

        return SimpleNamespace(name=name, put_bytes=put_bytes)

    def kept_for(self, share: Share, name: str) -> str:
        return f"/{name}-{share.index + 1}"

    def load_program(self, program: Any, arguments: Any, **how: Any) -> dict[str, str]:
        reports = {}
        for index, placement in enumerate(self.placements):
            mode, option = arguments(Share(index, len(self.placements)))
            path = option.removeprefix("--sample=")
            assert mode == "copies"
            shown = json.loads(self.sent[f"{placement.host.name}:{path}"])
            results = {"documents": len(shown), "examples": [], **self.answer(shown)}
            report = {"tool": "sdk", "schema": SCHEMA, "verify": results}
            reports[f"{how['output']}-{index + 1}.json"] = json.dumps(report)
        return reports


SAMPLE = [Sampled(f"key {n}", n, n, 2) for n in range(5)]


def checked_by(bench: Any) -> dict[str, int]:
    return verify_copies(bench, "sdk")


def test_each_load_client_reads_its_share_and_the_facts_count_all() -> None:
    bench = Bench(SAMPLE)
    assert checked_by(bench) == {"documents": 10, "copies": 20, "by_sdk": 5}
    assert {place: len(json.loads(text)) for place, text in bench.sent.items()} == {
        "client-1:/sample-1": 3,
        "client-2:/sample-2": 2,
    }


def test_a_copy_that_is_not_as_shown_fails_the_trial() -> None:
    def one_is_wrong(shown: Any) -> Any:
        return {"wrong": 1, "examples": ["key 1: why"]} if len(shown) == 2 else {"wrong": 0}

    with pytest.raises(TrialError, match="1 of 5 documents are not as DCP shows them: key 1: why"):
        checked_by(Bench(SAMPLE, one_is_wrong))


def test_a_load_client_that_read_too_little_fails_the_trial() -> None:
    with pytest.raises(TrialError, match="read by the SDK, 3 of 5 documents were compared"):
        checked_by(Bench(SAMPLE, lambda shown: {"wrong": 0, "documents": 3 * (len(shown) == 3)}))


def test_a_digest_without_a_sample_is_no_verification() -> None:
    with pytest.raises(TrialError, match="reported no document for the SDK to read"):
        checked_by(Bench([]))


def test_replicas_alone_need_no_sdk() -> None:
    bench: Any = Bench(SAMPLE)
    assert verify_copies(bench, "replicas") == {"documents": 10, "copies": 20}
    assert bench.sent == {}
