"""A backfill that gives its view of the documents back, and what changes before it continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from wire import Wire, set_frame

from tests.support.dcp_client import DISK_ONLY, TO_LATEST, DcpClient, View
from tests.support.waiting import until

pytestmark = pytest.mark.integration

SELECT = 0x89
DOCUMENTS = 300
SIZE = 50_000  # a backfill reads a few MB ahead


def store(writer: Wire, documents: dict[bytes, bytes]) -> None:
    """Store the documents, and wait until they are persisted."""
    for key, value in documents.items():
        writer.send(set_frame(key, value))
        assert writer.answer().status == 0
    until(lambda: writer.stats().get("ep_queue_size", "0") == "0", "not persisted")


@pytest.mark.parametrize(
    ("kind", "flags"),
    [("ephemeral", TO_LATEST), ("ephemeral", DISK_ONLY), ("persistent", DISK_ONLY)],
)
def test_a_stream_ends_only_with_what_changed_during_a_pause(
    kind: str, flags: int, start_engine: Callable[..., Any]
) -> None:
    """The client stops reading until the backfill is closed; then documents ahead of it change."""
    engine = start_engine("--vbuckets", "1", "--param", "dcp_backfill_idle_s=1", kind=kind)
    documents = {b"k%d" % number: b"a" * SIZE for number in range(DOCUMENTS)}
    with Wire(engine.port) as writer, DcpClient(engine.port) as client:
        writer.hello("select_bucket")
        assert writer.ask(SELECT, b"default").status == 0
        store(writer, documents)
        client.flow_control(1000)
        client.acknowledging = False
        assert client.open_stream(flags=flags).status == 0
        until(lambda: int(writer.stats(b"dcp")["ep_dcp_backfills_closed"]) > 0, "it stays open")
        changed = {b"k%d" % number: b"b" for number in range(200, 250)}
        store(writer, changed)
        received = client.until(bool)
        client.acknowledging = True
        client.acknowledge(sum(message.size for message in received))
        view = View().apply(client.until_end())
    assert {key: value for key, (_, value) in view.documents.items()} == documents | changed
    assert client.messages[-1].status == 0
    assert view.seqno == view.snapshots[-1][1] == DOCUMENTS + len(changed)
