"""Which data directories an engine starts in, and what it says of the others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from wire import Wire, set_frame

from perfrunner.experiment.trial.vbucket_map import cluster_config
from tests.integration.engine.conftest import Engine
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration


def refusal(kv_engine: Path, data: Path, *flags: str) -> str:
    """Start an engine that has to refuse its directory, and return its log."""
    command = [
        str(kv_engine), "--port=0", f"--data-dir={data}", "--vbuckets=64", "--quota-mb=64", *flags,
    ]  # fmt: skip
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.returncode == 1, result.stderr
    return result.stderr


@pytest.fixture
def stored(start_engine: Callable[..., Engine], tmp_path: Path) -> Path:
    """The directory of an engine that was stopped."""
    assert start_engine(kind="persistent").stop() == 0
    return tmp_path / "data"


@pytest.mark.parametrize("flags", [(), ("--accept-loss",)])
@pytest.mark.parametrize("path", ["data", "link"])
def test_a_directory_has_one_engine(
    path: str,
    flags: tuple[str, ...],
    start_engine: Callable[..., Engine],
    kv_engine: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to("data")
    engine = start_engine(kind="persistent")
    before = {file.name for file in (tmp_path / "data").iterdir()}
    assert "in use by another process" in refusal(kv_engine, tmp_path / path, *flags)
    assert {file.name for file in (tmp_path / "data").iterdir()} == before
    with Wire(engine.port) as wire:
        wire.send(set_frame(b"key", b"value"))
        assert wire.answer().status == 0
        until(lambda: wire.stats()["ep_queue_size"] == "0", "it is stored")
    engine.process.kill()
    engine.process.wait(PATIENCE_S)
    with Wire(start_engine(kind="persistent").port) as wire:
        assert wire.ask(0x00, b"key").value == b"value"


def test_nodes_do_not_overwrite_the_revision_of_each_other(
    start_engine: Callable[..., Engine],
) -> None:
    """A node that read the lower revision of another one would serve as active too early."""
    first, second = (start_engine("--vbuckets", "2") for _ in range(2))

    def publish(engine: Engine) -> int:
        config = cluster_config([("127.0.0.1", engine.port)], [[0], [0]], this=0)
        with Wire(engine.port) as wire:
            return wire.ask(0xB4, value=config.encode()).status

    assert publish(first) == 0
    assert publish(second) == 0x86
    assert "in use by another process" in second.log.read_text()
    assert first.stop() == 0
    assert publish(second) == 0


@pytest.mark.parametrize(
    "layout",
    [
        "", "[]", "{", '{"format":"1"}', '{"format":1}', '{"format":2,"shards":2,"vbuckets":64}',
        '{"format":1,"shards":"2","vbuckets":64}', '{"format":1,"shards":4294967298,"vbuckets":64}',
        '{"format":1,"shards":-1,"vbuckets":64}',
    ],
)  # fmt: skip
def test_a_damaged_layout_is_refused_by_name(layout: str, stored: Path, kv_engine: Path) -> None:
    (stored / "layout.json").write_text(layout)
    log = refusal(kv_engine, stored)
    assert "layout.json" in log or "--shards" in log
    assert "json.exception" not in log


@pytest.mark.parametrize("name", ["layout.json", "cluster.json"])
def test_a_directory_in_place_of_a_file_is_refused_by_name(
    name: str, stored: Path, kv_engine: Path
) -> None:
    (stored / name).unlink(missing_ok=True)
    (stored / name).mkdir()
    assert f"{name} cannot be read" in refusal(kv_engine, stored)


def test_another_number_of_shards_is_refused_with_the_stored_one(
    stored: Path, kv_engine: Path
) -> None:
    shards = json.loads((stored / "layout.json").read_text())["shards"]
    log = refusal(kv_engine, stored, f"--shards={shards + 1}")
    assert f"--shards {shards} --vbuckets 64" in log
