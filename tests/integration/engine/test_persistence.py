"""When what is persisted is on the disk, and what the engine says of its store: seen from outside."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wire import Wire, set_frame

from tests.integration.engine.conftest import Engine
from tests.support.history.cluster import built_disk
from tests.support.waiting import until

pytestmark = pytest.mark.integration

COUNT = 10_000
VALUE = b"x" * 1000
PATIENCE_S = 60


def persist(wire: Wire, count: int, value: bytes = VALUE) -> None:
    for n in range(count):
        wire.send(set_frame(b"key-%d" % n, value))
    assert {wire.answer().status for _ in range(count)} == {0}
    until(lambda: wire.stats()["ep_queue_size"] == "0", "all is stored")


@contextmanager
def syncs_of(engine: Engine, file: Path) -> Iterator[Callable[[], int]]:
    """Count the calls of the engine that have put something on the disk; one may fill two lines: begun, resumed."""
    done = re.compile(r"\bf(?:data)?sync(?:\(| resumed>).* = 0$")
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,fdatasync",
        "-o",
        str(file),
        "-p",
        str(engine.pid),
    ]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    assert "attached" in tracer.stderr.readline()
    try:
        yield lambda: sum(bool(done.search(line)) for line in file.read_text().splitlines())
    finally:
        tracer.terminate()
        tracer.wait(PATIENCE_S)
        tracer.stderr.close()


def test_a_start_follows_a_first_start_that_was_killed(kv_engine: Path, tmp_path: Path) -> None:
    """At any moment of it: a store that is only half made is not a damaged one."""
    for step in range(40):
        data, port_file = tmp_path / f"data-{step}", tmp_path / f"port-{step}"
        command = [
            str(kv_engine), "--port=0", f"--port-file={port_file}", f"--data-dir={data}",
            "--bucket-type=persistent", "--quota-mb=64", "--vbuckets=4",
        ]  # fmt: skip
        first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until(data.exists)
        time.sleep(step / 1000)
        first.kill()
        first.wait(PATIENCE_S)
        port_file.unlink(missing_ok=True)
        second = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        until(lambda file=port_file, of=second: file.exists() or of.poll() is not None)  # type: ignore[misc]
        second.terminate()
        assert second.wait(PATIENCE_S) == 0, second.stderr.read()
        second.stderr.close()


@pytest.mark.parametrize(
    ("flags", "survives"),
    [
        ((), "process death"),
        (("--fsync", "never"), "process death"),
        (("--fsync", "commit", "--param", "ht_locks=16"), "power loss"),
        (
            ("--fsync", "interval", "--param", "fsync_interval_ms=20"),
            "process death; power loss after 20 ms",
        ),
    ],
    ids=["default", "never", "commit", "interval"],
)
def test_what_a_persisted_mutation_survives_is_so(
    start_engine: Callable[..., Engine], tmp_path: Path, flags: tuple[str, ...], survives: str
) -> None:
    engine = start_engine(*flags, kind="persistent")
    with Wire(engine.port) as wire, syncs_of(engine, tmp_path / "calls") as syncs:
        assert wire.stats()["ep_persisted_survives"] == survives
        for n in range(1, 4):
            before = syncs()
            persist(wire, 1, b"%d" % n)
            if survives == "power loss":
                assert syncs() > before, "it was on the disk when it was said to be stored"
            elif survives != "process death":
                until(lambda before=before: syncs() > before, "it is on the disk by now")  # type: ignore[misc]
        if survives == "process death":
            assert syncs() == 0
            assert wire.stats()["ep_store_syncs"] == "0"
    assert engine.stop() == 0


@pytest.mark.parametrize("fsync", [pytest.param("never", marks=pytest.mark.long), "commit"])
def test_what_is_written_while_the_disk_is_full_is_stored_when_it_has_room(
    fsync: str,
    start_engine: Callable[..., Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = tmp_path / "full"
    library = built_disk(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("DISK_FULL", str(full))
        engine = start_engine("--fsync", fsync, kind="persistent")
    with Wire(engine.port) as wire:
        persist(wire, 10)
        for _ in range(2):  # an error in the log of the store, and one after that
            full.touch()
            failed = int(wire.stats()["ep_item_commit_failed"])
            for n in range(10):
                wire.send(set_frame(b"key-%d" % n, b"while it was full"))
                assert wire.answer().status == 0
            until(lambda: int(wire.stats()["ep_item_commit_failed"]) >= failed + 3)  # noqa: B023
            assert wire.stats()["ep_queue_size"] != "0"
            full.unlink()
            until(lambda: wire.stats()["ep_queue_size"] == "0", "all is stored")
    engine.process.kill()
    engine.process.wait(PATIENCE_S)
    engine = start_engine("--fsync", fsync, kind="persistent")
    with Wire(engine.port) as wire:
        for n in range(10):
            assert wire.ask(0x00, b"key-%d" % n).value == b"while it was full"


def test_nothing_is_called_stored_in_a_directory_that_is_elsewhere(
    start_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    engine = start_engine(kind="persistent")
    with Wire(engine.port) as wire:
        persist(wire, 10)
        data.rename(away)
        for n in range(10):
            assert wire.ask(0x01, b"key-%d" % n, b"while it was away", bytes(8)).status == 0
        until(lambda: int(wire.stats()["ep_item_commit_failed"]) > 0, "it is called stored")
        assert wire.stats()["ep_queue_size"] != "0"
        away.rename(data)
        until(lambda: wire.stats()["ep_queue_size"] == "0", "all is stored")
    assert "moved, removed or replaced" in engine.log.read_text()
    engine.process.kill()
    engine.process.wait(PATIENCE_S)
    engine = start_engine(kind="persistent")
    with Wire(engine.port) as wire:
        for n in range(10):
            assert wire.ask(0x00, b"key-%d" % n).value == b"while it was away"


def test_what_the_store_holds(start_engine: Callable[..., Engine], tmp_path: Path) -> None:
    """Its memory is charged to no bucket, and is in RSS all the same: STAT names the parts."""
    engine = start_engine("--param", "rocksdb_write_buffer_mb=64", kind="persistent")
    with Wire(engine.port) as wire:
        before = wire.stats(b"memory")
        persist(wire, COUNT)
        memory, kvstore = wire.stats(b"memory"), wire.stats(b"kvstore")
    bytes_sent = COUNT * len(VALUE)
    assert int(kvstore["rw:sets"]) == COUNT
    assert bytes_sent < int(kvstore["rw:bytes_written"]) < 2 * bytes_sent
    tables = int(memory["ep_store_memtable_bytes"]) - int(before["ep_store_memtable_bytes"])
    assert bytes_sent < tables < 3 * bytes_sent, "nothing of it has left the memory tables"
    parts = ("memtable_bytes", "block_cache_bytes", "table_reader_bytes")
    assert int(memory["ep_store_memory"]) == sum(int(memory[f"ep_store_{p}"]) for p in parts)
    assert kvstore["rw:memory_bytes"] == memory["ep_store_memory"]
    engine.stop()
    files = [path.stat().st_size for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert sum(files) > bytes_sent
