"""An unmodified Couchbase SDK with its default settings against the real engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import Durability, ServerDurability
from couchbase.exceptions import (
    AuthenticationException,
    BucketNotFoundException,
    CasMismatchException,
    CouchbaseException,
    DocumentExistsException,
    DocumentNotFoundException,
)
from couchbase.options import (
    ClusterOptions,
    DecrementOptions,
    DeltaValue,
    GetOptions,
    IncrementOptions,
    ReplaceOptions,
    SignedInt64,
    UpsertOptions,
)
from couchbase.subdocument import exists, get
from couchbase.transcoder import RawBinaryTranscoder

from tests.support.waiting import until

pytestmark = pytest.mark.integration

USERS = {"Administrator": "correct horse", "ann": "battery,staple=äö"}


def connect(port: int, user: str = "Administrator", password: str | None = None) -> Cluster:
    options = ClusterOptions(PasswordAuthenticator(user, password or USERS[user]))
    cluster = Cluster(f"couchbase://127.0.0.1:{port}", options)
    cluster.wait_until_ready(timedelta(seconds=10))
    return cluster


@pytest.fixture(params=["ephemeral", "persistent"])
def port(request: pytest.FixtureRequest, start_engine: Callable[..., Any]) -> int:
    return start_engine(users=USERS, kind=request.param).port


@pytest.fixture
def collection(port: int) -> Iterator[Any]:
    cluster = connect(port)
    yield cluster.bucket("default").default_collection()
    cluster.close()


def test_documents_round_trip(collection: Any) -> None:
    document = {"name": "Köln", "list": [1, 2.5, None], "nested": {"deep": True}}
    stored = collection.upsert("doc", document)
    fetched = collection.get("doc")
    assert fetched.content_as[dict] == document
    assert fetched.cas == stored.cas != 0


def test_insert_refuses_what_exists(collection: Any) -> None:
    collection.insert("key", {"n": 1})
    with pytest.raises(DocumentExistsException):
        collection.insert("key", {"n": 2})
    assert collection.get("key").content_as[dict] == {"n": 1}


def test_replace_needs_the_document_and_its_version(collection: Any) -> None:
    with pytest.raises(DocumentNotFoundException):
        collection.replace("key", {"n": 1})
    old = collection.upsert("key", {"n": 1}).cas
    new = collection.replace("key", {"n": 2}, ReplaceOptions(cas=old)).cas
    assert new != old
    with pytest.raises(CasMismatchException):
        collection.replace("key", {"n": 3}, ReplaceOptions(cas=old))
    assert collection.get("key").content_as[dict] == {"n": 2}


def test_remove(collection: Any) -> None:
    collection.upsert("key", {"n": 1})
    collection.remove("key")
    with pytest.raises(DocumentNotFoundException):
        collection.get("key")
    with pytest.raises(DocumentNotFoundException):
        collection.remove("key")


def test_counters(collection: Any) -> None:
    binary = collection.binary()
    start = IncrementOptions(initial=SignedInt64(10), delta=DeltaValue(1))
    assert binary.increment("count", start).content == 10
    assert binary.increment("count", IncrementOptions(delta=DeltaValue(5))).content == 15
    assert binary.decrement("count", DecrementOptions(delta=DeltaValue(100))).content == 0


def test_append_and_prepend(collection: Any) -> None:
    raw = RawBinaryTranscoder()
    collection.upsert("blob", b"middle", UpsertOptions(transcoder=raw))
    collection.binary().append("blob", b"-end")
    collection.binary().prepend("blob", b"start-")
    assert collection.get("blob", transcoder=raw).value == b"start-middle-end"
    with pytest.raises(DocumentNotFoundException):
        collection.binary().append("none", b"x")


def test_exists(collection: Any) -> None:
    assert not collection.exists("key").exists
    collection.upsert("key", {"n": 1})
    assert collection.exists("key").exists
    collection.remove("key")
    assert not collection.exists("key").exists


def test_expiry_touch_and_get_and_touch(collection: Any) -> None:
    soon = UpsertOptions(expiry=timedelta(seconds=1))
    collection.upsert("gone", {"n": 1}, soon)
    collection.upsert("touched", {"n": 2}, soon)
    collection.upsert("read", {"n": 3}, soon)
    collection.touch("touched", timedelta(seconds=60))
    touched = collection.get_and_touch("read", timedelta(seconds=60))
    assert touched.content_as[dict] == {"n": 3}
    until(lambda: not collection.exists("gone").exists, "it expires")
    with pytest.raises(DocumentNotFoundException):
        collection.get("gone")
    assert collection.get("touched").content_as[dict] == {"n": 2}
    assert collection.get("read").content_as[dict] == {"n": 3}


def test_get_with_the_expiry_time(collection: Any) -> None:
    before = int(time.time())
    collection.upsert("key", {"n": 1}, UpsertOptions(expiry=timedelta(seconds=600)))
    with_expiry = GetOptions(with_expiry=True)
    fetched = collection.get("key", with_expiry)
    assert fetched.content_as[dict] == {"n": 1}
    assert before + 600 <= fetched.expiry_time.timestamp() <= time.time() + 601
    collection.upsert("never", {"n": 2})
    never = collection.get("never", with_expiry)
    assert (never.content_as[dict], never.expiry_time) == ({"n": 2}, None)
    with pytest.raises(DocumentNotFoundException):
        collection.get("none", with_expiry)


def test_virtual_attributes(collection: Any) -> None:
    stored = collection.upsert("key", {"n": 1})
    looked_up = collection.lookup_in(
        "key",
        [
            get("$document", xattr=True),
            exists("mine", xattr=True),
            get("$vbucket.HLC.now", xattr=True),
        ],
    )
    about = looked_up.content_as[dict](0)
    assert int(about["CAS"], 16) == stored.cas == looked_up.cas
    assert (about["exptime"], about["deleted"], about["value_bytes"]) == (0, False, len('{"n": 1}'))
    assert about["datatype"] == ["json"]
    assert not looked_up.exists(1), "no document has extended attributes"
    assert int(looked_up.content_as[str](2)) >= int(about["last_modified"])


def test_paths_into_a_value_are_refused(collection: Any) -> None:
    collection.upsert("key", {"n": 1})
    with pytest.raises(CouchbaseException):
        collection.lookup_in("key", [get("n")])
    with pytest.raises(CouchbaseException):
        collection.get("key", GetOptions(project=["n"]))
    assert collection.get("key").content_as[dict] == {"n": 1}


def test_lock_and_unlock(collection: Any) -> None:
    collection.upsert("key", {"n": 1})
    locked = collection.get_and_lock("key", timedelta(seconds=15))
    collection.unlock("key", locked.cas)
    collection.upsert("key", {"n": 2})
    assert collection.get("key").content_as[dict] == {"n": 2}


def test_multi_operations(collection: Any) -> None:
    documents = {f"multi-{i}": {"n": i} for i in range(500)}
    assert collection.upsert_multi(documents).all_ok
    fetched = collection.get_multi(list(documents))
    assert fetched.all_ok
    assert {key: result.content_as[dict] for key, result in fetched.results.items()} == documents
    assert collection.touch_multi(list(documents), timedelta(seconds=60)).all_ok
    assert collection.remove_multi(list(documents)).all_ok
    assert not collection.get_multi(["multi-0"]).all_ok


def test_large_document(collection: Any) -> None:
    raw = RawBinaryTranscoder()
    # The SDK's time to read a value grows with its square: 19 MiB are test_protocol's.
    big = bytes(range(256)) * (4 * 4096)
    collection.upsert("big", big, UpsertOptions(transcoder=raw))
    assert collection.get("big", transcoder=raw).value == big


def test_preserve_expiry(collection: Any) -> None:
    collection.upsert("key", 1, UpsertOptions(expiry=timedelta(seconds=2)))
    collection.upsert("key", 2, UpsertOptions(preserve_expiry=True))
    assert collection.get("key").content_as[int] == 2
    until(lambda: not collection.exists("key").exists, "the expiry time was lost")


def test_durability_is_kept_or_refused(collection: Any) -> None:
    majority = ServerDurability(Durability.MAJORITY)
    collection.upsert("key", {"n": 1}, UpsertOptions(durability=majority))
    on_disk = ServerDurability(Durability.PERSIST_TO_MAJORITY)
    with pytest.raises(CouchbaseException):
        collection.upsert("key", {"n": 2}, UpsertOptions(durability=on_disk))
    assert collection.get("key").content_as[dict] == {"n": 1}, "a refused request changes nothing"


def test_ping_and_second_user(port: int) -> None:
    cluster = connect(port, "ann")
    bucket = cluster.bucket("default")
    bucket.default_collection().upsert("key", 1)
    assert bucket.ping().endpoints
    cluster.close()


def test_wrong_password(port: int) -> None:
    with pytest.raises(AuthenticationException):
        connect(port, "Administrator", "wrong")


def test_unknown_user(port: int) -> None:
    with pytest.raises(AuthenticationException):
        connect(port, "nobody", "correct horse")


def test_unknown_bucket(port: int) -> None:
    cluster = connect(port)
    with pytest.raises((BucketNotFoundException, CouchbaseException)):
        cluster.bucket("other").default_collection().get("key")
    cluster.close()
