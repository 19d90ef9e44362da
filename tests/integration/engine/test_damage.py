"""Changed bytes and missing files of a stopped engine never become a silent loss.

A start after damage has one of three outcomes: every document is there, the engine refuses to start, or it says in its
log what is lost and begins a new history. Anything else is a silent loss: a client that goes on with its old uuid would
never learn that documents are gone. After a kill, an earlier state with a new history is right as well: it cannot be
distinguished from what a power cut leaves.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from perfrunner.experiment.trial.vbucket_map import cluster_config
from tests.support.dcp_client import FAILOVER_LOG, STREAM_END, TO_LATEST, DcpClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

VBUCKETS = 2
DELETE, SET_CONFIG, ROLLBACK = 0x04, 0xB4, 0x23
SAMPLE_STEP = 61  # bytes between two that the short test changes
LENGTH_STEP = 512  # bytes between two lengths to which a file is cut
OPTIONS_STEP = 20  # times as far apart in RocksDB's OPTIONS files, which are long and which a start does not read
PAIR_STEP = 3  # the short test exchanges every third pair of files
LOSS = ("cut off", "lost", "damaged", "cannot be read")  # words of the log that report a loss
Damage = Callable[[Path], None]
Documents = dict[tuple[int, bytes], tuple[int, int, bytes]]


def is_served(client: DcpClient, vbucket: int) -> bool:
    return client.ask(FAILOVER_LOG, vbucket=vbucket).status == 0


@dataclass(frozen=True)
class Contents:
    """What an engine serves: its documents, and the uuid of each vBucket's history (None: it is dead)."""

    documents: Documents
    uuids: tuple[int | None, ...]

    @classmethod
    def of(cls, port: int) -> Contents:
        documents: Documents = {}
        with DcpClient(port, timeout=200) as client:
            served = [vb for vb in range(VBUCKETS) if is_served(client, vb)]
            uuids = tuple(
                client.failover_log(vb)[0][0] if vb in served else None for vb in range(VBUCKETS)
            )
            for vbucket in served:
                assert client.open_stream(vbucket, flags=TO_LATEST).status == 0
            client.until(lambda got: sum(m.opcode == STREAM_END for m in got) == len(served), 200)
            for message in client.messages:
                if message.is_document:
                    key = (message.vbucket, message.key)
                    documents[key] = (message.seqno, message.cas, message.value)
        return cls(documents, uuids)


@dataclass(frozen=True)
class Outcome:
    verdict: str  # whole, refused, reported, earlier (as after a power cut), silent
    text: str


class Store:
    """A stopped engine's data directory that is copied, damaged and started again, many times."""

    def __init__(self, engine: Path, place: Path) -> None:
        self.engine, self.place = engine, place
        self.template = place / "template"
        self.contents: Contents | None = None
        self.earlier: list[Documents] = []  # at the end of the lives before the last one
        self.stop = "clean"
        self.flags: tuple[str, ...] = ()  # of every start

    def command(self, data: Path, port_file: Path, *flags: str) -> list[str]:
        return [
            str(self.engine), "--port=0", f"--port-file={port_file}", f"--data-dir={data}",
            f"--vbuckets={VBUCKETS}", "--shards=1", "--threads=1", "--quota-mb=64", *self.flags, *flags,
        ]  # fmt: skip

    def start(self, data: Path, *flags: str) -> tuple[subprocess.Popen[str], int | None]:
        """The process and its port; None when it has ended."""
        port_file = data.parent / f"{data.name}.port"
        port_file.unlink(missing_ok=True)
        log = (data.parent / f"{data.name}.log").open("w")
        process = subprocess.Popen(self.command(data, port_file, *flags), stderr=log, text=True)
        deadline = time.monotonic() + 200
        while not port_file.exists():
            if process.poll() is not None:
                return process, None
            assert time.monotonic() < deadline, "neither started nor refused"
            time.sleep(0.002)
        return process, int(port_file.read_text())

    def fill(self, stop: str) -> None:
        """Store documents, an overwrite, deletions and a cluster config; `stop` is clean or killed."""
        self.stop = stop
        requests = [set_frame(b"key-%d" % n, b"value-%d" % n) for n in range(12)]
        self.live([*requests, set_frame(b"key-3", b"another value"), frame(DELETE, b"key-5")])

    def add(self, documents: int) -> None:
        """Store more documents in another life of the engine."""
        self.live([set_frame(b"later-%d" % number, b"x") for number in range(documents)])

    def live(self, requests: list[bytes]) -> None:
        """Start the engine, make the requests, wait until they are stored, and stop it."""
        process, port = self.start(self.template)
        assert port is not None
        with Wire(port, timeout=200) as wire:
            for request in [frame(SET_CONFIG, value=self.config(port)), *requests]:
                wire.send(request)
                assert wire.answer().status == 0
            while wire.stats()["ep_queue_size"] != "0":
                time.sleep(0.01)
        self.end(process, port)

    def end(self, process: subprocess.Popen[str], port: int) -> None:
        self.earlier.append(self.contents.documents if self.contents is not None else {})
        self.contents = Contents.of(port)
        process.terminate() if self.stop == "clean" else process.kill()
        process.wait(timeout=200)

    @staticmethod
    def config(port: int) -> bytes:
        rows = [[0]] * VBUCKETS
        return cluster_config([("127.0.0.1", port)], rows, this=0).encode()

    def files(self) -> list[Path]:
        """All but the logs for people: RocksDB's own."""
        results = sorted(p.relative_to(self.template) for p in self.template.rglob("*"))
        return [
            p for p in results if (self.template / p).is_file() and not p.name.startswith("LOG")
        ]

    def try_with(self, damage: Damage, *flags: str) -> Outcome:
        """What a start makes of a damaged copy."""
        data = Path(tempfile.mkdtemp(dir=self.place)) / "data"
        try:
            shutil.copytree(self.template, data)
            damage(data)
            process, port = self.start(data, *flags)
            try:
                log = (data.parent / "data.log").read_text()
                if port is None:
                    return Outcome("refused" if process.returncode == 1 else "silent", log)
                return self.judge(Contents.of(port), log)
            finally:
                process.kill()
                process.wait(timeout=200)
        finally:
            shutil.rmtree(data.parent)

    def judge(self, results: Contents, log: str) -> Outcome:
        assert self.contents is not None
        if results.documents == self.contents.documents:
            return Outcome("whole", log)
        notices = any(word in line for line in log.splitlines() for word in LOSS)
        changed = {
            vbucket
            for vbucket, key in self.contents.documents | results.documents
            if results.documents.get((vbucket, key)) != self.contents.documents.get((vbucket, key))
        }
        new = all(results.uuids[vb] != self.contents.uuids[vb] for vb in changed)
        # An empty log is what a power cut leaves of writes that nothing has synced.
        if new and not notices and self.stop == "killed" and results.documents in self.earlier:
            return Outcome("earlier", log)
        return Outcome("reported" if notices and new else "silent", log)


@pytest.fixture(params=["clean", "killed"])
def store(request: Any, kv_engine: Path, tmp_path: Path) -> Iterator[Store]:
    """Of an engine that was stopped cleanly, or killed after everything was persisted."""
    memory = Path("/dev/shm")  # a start syncs files: without a disk it takes a tenth of the time
    directory = memory if memory.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(prefix="kv-damage-", dir=directory) as place:
        made = Store(kv_engine, Path(place))
        made.fill(request.param)
        yield made


def flip(file: Path, at: int) -> Damage:
    def damage(data: Path) -> None:
        with (data / file).open("r+b") as stream:
            stream.seek(at)
            byte = stream.read(1)[0]
            stream.seek(at)
            stream.write(bytes([byte ^ (1 << at % 8)]))

    return damage


def check(store: Store, damages: list[tuple[str, Damage]]) -> Counter[str]:
    """Fail if a start after one of these damages, each with its name, is a silent loss."""
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda case: store.try_with(case[1]), damages))
    counted = Counter(outcome.verdict for outcome in outcomes)
    print(json.dumps(counted))
    silent = [
        (name, outcome.text)
        for (name, _), outcome in zip(damages, outcomes, strict=True)
        if outcome.verdict == "silent"
    ]
    assert not silent, f"{len(silent)} of {len(damages)} are silent: {silent[:3]}"
    return counted


def step_in(file: Path, step: int) -> int:
    return step * (OPTIONS_STEP if file.name.startswith("OPTIONS") else 1)


@pytest.mark.parametrize(
    "step",
    [SAMPLE_STEP, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(7200)])],
)
def test_no_changed_byte_is_a_silent_loss(step: int, store: Store) -> None:
    cases = [
        (file, at)
        for file in store.files()
        for at in range(0, (store.template / file).stat().st_size, step_in(file, step))
    ]
    counted = check(store, [(f"byte {at} of {file}", flip(file, at)) for file, at in cases])
    assert counted["whole"]
    assert counted["refused"]


def remove(file: Path) -> Damage:
    return lambda data: (data / file).unlink()


def shorten(file: Path, size: int) -> Damage:
    return lambda data: os.truncate(data / file, size)


def exchange(single: Path, other: Path) -> Damage:
    def damage(data: Path) -> None:
        (data / single).rename(data / "between")
        (data / other).rename(data / single)
        (data / "between").rename(data / other)

    return damage


def put_back(older: Path, *files: Path) -> Damage:
    def damage(data: Path) -> None:
        for file in files:
            shutil.copy(older / file, data / file)

    return damage


@pytest.mark.parametrize(
    "step",
    [LENGTH_STEP, pytest.param(LENGTH_STEP // OPTIONS_STEP, marks=pytest.mark.long)],
)
def test_no_missing_or_shortened_file_is_a_silent_loss(step: int, store: Store) -> None:
    files = store.files()
    damages: list[tuple[str, Damage]] = [(f"without {file}", remove(file)) for file in files]
    for file in files:
        size = (store.template / file).stat().st_size
        sizes = {*range(0, size, step_in(file, step)), size // 2} if size else set()
        damages += [(f"{length} bytes of {file}", shorten(file, length)) for length in sizes]
    check(store, damages)


@pytest.mark.parametrize("step", [PAIR_STEP, pytest.param(1, marks=pytest.mark.long)])
def test_no_exchanged_or_older_file_is_a_silent_loss(step: int, store: Store) -> None:
    """Files of an earlier stop are what a restore of half a backup leaves."""
    older = store.place / "older"
    shutil.copytree(store.template, older)
    earlier = store.files()
    store.add(30)
    pairs = itertools.islice(itertools.combinations(store.files(), 2), 0, None, step)
    damages: list[tuple[str, Damage]] = [
        (f"{single} and {other}", exchange(single, other)) for single, other in pairs
    ]
    damages += [(f"older {file}", put_back(older, file)) for file in earlier]
    pairs = itertools.islice(itertools.combinations(earlier, 2), 0, None, step)
    damages += [(f"older {files}", put_back(older, *files)) for files in pairs]
    damages.append(("all older files", put_back(older, *earlier)))
    check(store, damages)


@pytest.mark.parametrize("store", ["killed"], indirect=True)
def test_no_missing_log_of_several_is_a_silent_loss(store: Store) -> None:
    """The documents of small write buffers are in several logs, which the store needs together."""
    store.flags = ("--param=rocksdb_write_buffer_mb=1",)
    logs: list[Path] = []
    for life in itertools.count():
        keys = range(1500)
        store.live([set_frame(b"big-%d" % n, b"%d" % life * 1500, vbucket=n % 2) for n in keys])
        logs = [file for file in store.files() if file.suffix == ".log"]
        if len(logs) > 1:
            break
    counted = check(store, [(f"without {log}", remove(log)) for log in logs])
    assert counted["reported"], "the newest, which a power cut may leave out"


@pytest.mark.parametrize("store", ["clean"], indirect=True)
def test_a_clean_stop_leaves_nothing_in_the_log(store: Store) -> None:
    assert all(
        (store.template / f).stat().st_size == 0 for f in store.files() if f.suffix == ".log"
    )


@pytest.mark.parametrize("store", ["clean"], indirect=True)
def test_a_mark_without_its_stores_is_refused(store: Store) -> None:
    others = [file for file in store.files() if file.name != "clean"]

    def leave_the_mark(data: Path) -> None:
        for file in others:
            (data / file).unlink()

    assert store.try_with(leave_the_mark).verdict == "refused"


@pytest.mark.parametrize("store", ["clean"], indirect=True)
def test_a_loss_is_refused_until_it_is_accepted(store: Store) -> None:
    """The directory of the last stop, but with an older store in it: half a backup."""
    older = store.place / "older"
    shutil.copytree(store.template, older)
    store.add(100)

    def mix(data: Path) -> None:
        shutil.rmtree(data / "shard-0")
        shutil.copytree(older / "shard-0", data / "shard-0")

    refused = store.try_with(mix)
    assert refused.verdict == "refused"
    assert "it is older" in refused.text

    def mix_without_notes(data: Path) -> None:
        mix(data)
        for note in data.glob("shard-0.*"):
            note.unlink()

    refused = store.try_with(mix_without_notes)
    assert refused.verdict == "refused"
    assert "100 documents are gone" in refused.text
    assert "--accept-loss" in refused.text
    assert store.try_with(mix, "--accept-loss").verdict == "reported"
    accepted = store.try_with(mix_without_notes, "--accept-loss")
    assert accepted.verdict == "reported"
    assert "100 documents are lost" in accepted.text


def test_a_client_of_the_original_does_not_resume_from_an_older_copy(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    data, copy = tmp_path / "original", tmp_path / "copy"

    def start(place: Path) -> Any:
        return start_engine("--vbuckets", "1", "--data-dir", str(place), kind="persistent")

    def fill(engine: Any, first: int) -> None:
        with Wire(engine.port) as wire:
            wire.send(b"".join(set_frame(b"key-%d" % n, b"v") for n in range(first, first + 100)))
            assert all(wire.answer().status == 0 for _ in range(100))

    engine = start(data)
    fill(engine, 0)
    assert engine.stop() == 0
    shutil.copytree(data, copy)
    engine = start(data)
    fill(engine, 100)
    with DcpClient(engine.port) as client:
        uuid = client.failover_log(0)[0][0]
    assert engine.stop() == 0
    restored = start(copy)
    fill(restored, 1000)
    fill(restored, 2000)
    with DcpClient(restored.port) as client:
        answer = client.open_stream(0, start=200, uuid=uuid)
        assert answer.status == ROLLBACK
        assert int.from_bytes(answer.value, "big") == 100
