"""The program of `type: sdk`, on a bucket that is a dictionary: what it writes, counts, compares and refuses."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import couchbase.exceptions
import pytest
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    DocumentNotFoundException,
    TemporaryFailException,
    UnAmbiguousTimeoutException,
    ValueFormatException,
)

from perfrunner.measure.client import parse_report
from perfrunner.workloads.sdk import sdk_program
from perfrunner.workloads.sdk_client import documents
from perfrunner.workloads.sdk_client import documents as module
from perfrunner.workloads.sdk_client.documents import Documents, LoadError, Versions, verify
from perfrunner.workloads.sdk_client.load import Histogram, Mix, access, bucket, populate
from perfrunner.workloads.sdk_client.process import Meter

DOCUMENTS = Documents(7, 100, 300)
COUNT = 40
START = 1000


class Answer:
    def __init__(self, matches: Any) -> None:
        self.results = matches

    @property
    def value(self) -> Any:
        if isinstance(self.results, Exception):
            raise self.results
        return self.results


class Several:
    def __init__(self) -> None:
        self.results: dict[str, Answer] = {}
        self.exceptions: dict[str, Exception] = {}


class Bucket:
    """As a collection of the SDK. `troubles` are met by the next operations of a kind, in order; None: no trouble.

    A trouble that is ("made", error) raises although the write was made.
    """

    def __init__(self, **troubles: list[Any]) -> None:
        self.stored: dict[str, Any] = {}
        self.troubles = troubles
        self.now = 0

    def clock(self) -> int:
        """Every look at it takes 5 ms."""
        self.now += 5_000_000
        return self.now

    def _trouble(self, kind: str) -> Any:
        waiting = self.troubles.get(kind)
        return waiting.pop(0) if waiting else None

    def upsert(self, key: str, document: Any) -> None:
        trouble = self._trouble("set")
        if isinstance(trouble, Exception):
            raise trouble
        self.stored[key] = json.loads(json.dumps(document))
        if trouble is not None:
            raise trouble[1]

    def get(self, key: str) -> Answer:
        trouble = self._trouble("get")
        if isinstance(trouble, Exception):
            raise trouble
        if key not in self.stored:
            raise DocumentNotFoundException
        return Answer(self.stored[key])

    def upsert_multi(self, documents: dict[str, Any]) -> Several:
        answer = Several()
        for key, document in documents.items():
            try:
                self.upsert(key, document)
            except Exception as error:  # noqa: BLE001 - as the SDK does
                answer.exceptions[key] = error
        return answer

    def get_multi(self, keys: list[str]) -> Several:
        answer = Several()
        for key in keys:
            trouble = self._trouble("get_multi")
            if trouble is not None:
                answer.exceptions[key] = trouble
            elif key in self.stored:
                answer.results[key] = Answer(self.stored[key])
            else:
                answer.exceptions[key] = DocumentNotFoundException()
        return answer


@pytest.fixture
def full() -> Bucket:
    made = Bucket()
    assert populate(made, DOCUMENTS, range(START, START + COUNT)) == COUNT
    return made


def fresh() -> Versions:
    return Versions.populated(START, COUNT)


def load(
    on: Bucket, versions: Versions, *, sets: float = 50.0, ops: int | None = 400, seconds: float = 0
) -> Any:
    return access(on, DOCUMENTS, versions, Mix(sets, seconds, ops, 3), clock=on.clock)


def test_buckets_are_those_of_the_other_load_tools() -> None:
    assert [bucket(n) for n in (0, 1, 2047, 2048, 2049, 2050)] == [0, 1, 2047, 2049, 2049, 2051]
    assert bucket(1 << 50) == (1 << 40) - 1
    draws = random.Random(1)
    for _ in range(2000):
        value = draws.getrandbits(draws.randrange(1, 40))
        upper = bucket(value)
        assert value <= upper <= value + value / 1000
        assert bucket(upper) == upper
        assert bucket(upper + 1) > upper


def test_documents_follow_from_the_seed_and_have_the_size_that_was_asked_for() -> None:
    sizes = set()
    for number in (0, 7, 10**11):
        for version in (0, 1, 2**32 - 1):
            document = DOCUMENTS.document(number, version)
            assert document == Documents(7, 100, 300).document(number, version)
            assert document["body"] != DOCUMENTS.document(number, version + 1)["body"]
            sizes.add(len(json.dumps(document)))
    assert min(sizes) >= 100
    assert max(sizes) <= 300
    assert len(sizes) > 3
    assert len(json.dumps(Documents(1, 64, 64).document(10**11, 2**32))) == 64
    assert len(json.dumps(Documents(1, 200_000, 200_000).document(1, 1))) == 200_000
    assert Documents(8, 100, 300).document(0, 0) != DOCUMENTS.document(0, 0)


def test_large_documents_go_in_small_batches() -> None:
    assert DOCUMENTS.batch == 500
    assert Documents(1, 64, 2**20).batch == 4
    assert Documents(1, 64, 20 * 2**20).batch == 1


def test_a_load_counts_what_it_did(full: Bucket) -> None:
    traffic = load(full, fresh())
    assert (traffic.ops, traffic.misses, dict(traffic.errors)) == (400, 0, {})
    assert 150 < traffic.sets < 250
    report = {
        "tool": "sdk", "schema": 1, "populate": None, "access": traffic.report(),
        "client": Meter().report(),
    }  # fmt: skip
    phase = parse_report(json.dumps(report), "client.json").drive
    assert phase is not None
    assert (phase.ops, phase.gets, phase.sets) == (400, traffic.gets, traffic.sets)
    assert phase.seconds == pytest.approx(traffic.seconds)
    assert sum(second.ops for second in phase.series) == 400
    assert phase.series[-1].t == pytest.approx(phase.seconds)
    assert all(second.width == pytest.approx(1.0) for second in phase.series[:-1])
    assert {kind: h.count for kind, h in phase.latency.items()} == {
        "get": traffic.gets,
        "set": traffic.sets,
    }
    assert phase.latency["get"].percentile_ns(50) == 5_000_000  # one look at the clock to the next


@pytest.mark.parametrize("share", [0.0, 100.0])
def test_a_load_of_one_kind(full: Bucket, share: float) -> None:
    traffic = load(full, fresh(), sets=share)
    assert traffic.sets == 4 * share
    assert traffic.ops == 400


def test_a_load_ends_when_its_time_is_over_and_stalls_are_seconds_without_operations() -> None:
    bucket_ = Bucket()
    populate(bucket_, DOCUMENTS, range(START, START + COUNT))
    slow = iter([3_000_000_000])
    looks = bucket_.clock

    def clock() -> int:
        if bucket_.now > 100_000_000:
            bucket_.now += next(slow, 0)
        return looks()

    traffic = access(bucket_, DOCUMENTS, fresh(), Mix(0.0, 4.0, None, 3), clock=clock)
    assert traffic.seconds == pytest.approx(4.0, abs=0.02)
    assert [second == 0 for second in traffic.per_second[:4]] == [False, True, True, False]


def test_expected_errors_are_counted_by_kind_and_misses_apart(full: Bucket) -> None:
    full.troubles = {
        "set": [None, TemporaryFailException(), AmbiguousTimeoutException()],
        "get": [AmbiguousTimeoutException(), DocumentNotFoundException()],
    }
    versions = fresh()
    traffic = load(full, versions)
    assert dict(traffic.errors) == {"temporary_failure": 1, "timeout_ambiguous": 2}
    assert traffic.misses == 1
    assert traffic.ops == 400
    assert verify(full, DOCUMENTS, versions)["wrong"] == 0


@pytest.mark.parametrize("kind", ["get", "set"])
def test_any_other_error_ends_the_load(full: Bucket, kind: str) -> None:
    full.troubles = {kind: [ValueFormatException()]}
    with pytest.raises(ValueFormatException):
        load(full, fresh())


@pytest.mark.parametrize("made", [True, False])
def test_after_an_ambiguous_write_either_version_is_right_until_the_next(
    full: Bucket, made: bool
) -> None:
    error = AmbiguousTimeoutException()
    full.troubles = {"set": [("made", error) if made else error]}
    versions = fresh()
    traffic = load(full, versions, sets=100.0, ops=1)
    assert dict(traffic.errors) == {"timeout_ambiguous": 1}
    (number,) = [n for n in versions.numbers if len(versions.possible(n)) > 1]
    assert versions.possible(number) == [0, 1]
    assert versions.next(number) == 2
    assert verify(full, DOCUMENTS, versions)["wrong"] == 0
    versions.written(number, 2)
    assert versions.possible(number) == [2]
    assert verify(full, DOCUMENTS, versions)["wrong"] == 1


def test_a_read_of_what_was_not_last_written_ends_the_load(full: Bucket) -> None:
    for number in range(START, START + COUNT):
        full.stored[DOCUMENTS.key(number)] = DOCUMENTS.document(number, 5)
    with pytest.raises(LoadError, match=r"expected version 0, it is version 5$"):
        load(full, fresh(), sets=0.0)


def test_versions_outlive_the_process(full: Bucket, tmp_path: Path) -> None:
    full.troubles = {"set": [None] * 30 + [AmbiguousTimeoutException()] * 2}
    versions = fresh()
    load(full, versions)
    versions.save(tmp_path / "versions")
    again = Versions.load(tmp_path / "versions")
    assert again.numbers == versions.numbers
    assert [again.possible(n) for n in again.numbers] == [
        versions.possible(n) for n in versions.numbers
    ]
    assert any(again.possible(n) != [0] for n in again.numbers)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda stored, key: stored.pop(key), "it is missing"),
        (lambda stored, key: stored[key].update(body="x"), "it is version {v} with different content"),
        (lambda stored, key: stored[key].update(version=-1), "it is version -1 with different content"),
        (lambda stored, key: stored.update({key: "text"}), "it is another document"),
        (lambda stored, key: stored.update({key: {"a": 1}}), "it is another document"),
        (lambda stored, key: stored.update({key: ValueFormatException()}), "it cannot be read (ValueFormatException)"),
        (lambda stored, key: stored.update({key: DOCUMENTS.document(START + 2, 0)}), "with different content"),
    ],
)  # fmt: skip
def test_verification_finds_one_document_of_many(full: Bucket, change: Any, says: str) -> None:
    versions = fresh()
    load(full, versions)
    assert verify(full, DOCUMENTS, versions) == {
        "documents": COUNT, "wrong": 0, "examples": [], "sampled": 0, "again": 0,
    }  # fmt: skip
    number = START + 3
    (version,) = versions.possible(number)
    change(full.stored, DOCUMENTS.key(number))
    matches: Any = verify(full, DOCUMENTS, versions)
    assert (matches["documents"], matches["wrong"]) == (COUNT, 1)
    (example,) = matches["examples"]
    assert example.startswith(f"{DOCUMENTS.key(number)}: expected version {version}, ")
    assert example.endswith(says.format(v=version))


def test_what_had_no_answer_in_time_is_read_again(full: Bucket) -> None:
    full.troubles = {
        "get_multi": [None, UnAmbiguousTimeoutException(), UnAmbiguousTimeoutException()]
    }
    matches: Any = verify(full, DOCUMENTS, fresh())
    assert (matches["wrong"], matches["again"]) == (0, 2)
    full.troubles = {
        "get_multi": [UnAmbiguousTimeoutException()],
        "get": [UnAmbiguousTimeoutException()],
    }
    matches = verify(full, DOCUMENTS, fresh())
    assert (matches["wrong"], matches["again"]) == (1, 1), "and once only"


class Copy:
    def __init__(self, value: Any, cas: int = 7) -> None:
        self.value, self.cas = value, cas


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda copies: None, ""),
        (lambda copies: copies.pop(), "expected 2 copies, found 1"),
        (lambda copies: setattr(copies[1], "cas", 8), "its copies differ in their CAS"),
        (lambda copies: copies[1].value.update(body="x"), "expected version 0, it is version 0 with different content"),
        (lambda copies: copies.clear(), "expected 2 copies, found 0"),
    ],
)  # fmt: skip
def test_the_copies_of_a_sample_are_read_on_every_node(
    full: Bucket, monkeypatch: pytest.MonkeyPatch, spoil: Any, says: str
) -> None:
    monkeypatch.setattr(module, "SAMPLED", 10)
    monkeypatch.setattr(module, "COPIES_S", 0.0)
    asked: list[str] = []

    def get_all_replicas(key: str) -> list[Copy]:
        asked.append(key)
        copies = [Copy(dict(full.stored[key])) for _ in range(2)]
        if key == DOCUMENTS.key(START + 4):
            spoil(copies)
        return copies

    monkeypatch.setattr(full, "get_all_replicas", get_all_replicas, raising=False)
    matches: Any = verify(full, DOCUMENTS, fresh(), 2)
    assert asked[:2] == [DOCUMENTS.key(START), DOCUMENTS.key(START + 4)]
    assert (matches["sampled"], matches["wrong"]) == (10, int(bool(says)))
    assert [e.partition(": ")[2] for e in matches["examples"]] == [says][: matches["wrong"]]


def test_a_lost_write_is_found(full: Bucket) -> None:
    versions = fresh()
    load(full, versions)
    number = next(n for n in versions.numbers if versions.possible(n) != [0])
    full.stored[DOCUMENTS.key(number)] = DOCUMENTS.document(number, 0)
    matches: Any = verify(full, DOCUMENTS, versions)
    assert matches["examples"][0].endswith("it is version 0")


def test_a_document_that_was_never_sent_is_stored_again_and_once_only() -> None:
    late = UnAmbiguousTimeoutException
    full = Bucket(set=[None, late()])
    assert populate(full, DOCUMENTS, range(START, START + COUNT)) == COUNT
    assert len(full.stored) == COUNT
    full = Bucket(set=[late(), *[None] * (DOCUMENTS.batch - 1), late()])
    with pytest.raises(LoadError, match="1 documents cannot be stored"):
        populate(full, DOCUMENTS, range(START, START + DOCUMENTS.batch))


def test_a_document_that_cannot_be_stored_is_reported() -> None:
    full = Bucket(set=[None, TemporaryFailException(message="no memory")])
    with pytest.raises(
        LoadError, match=r"1 documents cannot be stored; sdk-000000001001: .*no memory"
    ):
        populate(full, DOCUMENTS, range(START, START + COUNT))


def test_the_errors_that_are_expected_exist() -> None:
    for name in (*documents.EXPECTED, documents.MISSING):
        assert issubclass(getattr(couchbase.exceptions, name), Exception)


def test_an_empty_histogram_is_one() -> None:
    assert Histogram().report() == {"count": 0, "mean": 0.0, "max": 0, "buckets": []}


def test_it_needs_nothing_else_of_perfrunner(tmp_path: Path) -> None:
    """-S: no site-packages, so no perfrunner but what the file brings."""
    archive = tmp_path / "sdk.pyz"
    archive.write_bytes(sdk_program().archive)
    done = subprocess.run(
        [sys.executable, "-I", "-S", archive, "--help"], capture_output=True, text=True, check=True
    )
    assert "populate" in done.stdout
    assert sdk_program.__wrapped__() == sdk_program(), "the same bytes every time"
    with zipfile.ZipFile(archive) as content:
        trees = [ast.parse(content.read(name)) for name in content.namelist()]
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    own = "perfrunner.workloads.sdk_client."
    allowed = sys.stdlib_module_names | {"couchbase"}
    assert {str(n).split(".")[0] for n in imported if not str(n).startswith(own)} <= allowed
