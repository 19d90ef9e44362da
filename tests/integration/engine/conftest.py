"""Real kv_engine processes for the tests of this folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import built
from tests.support.waiting import PATIENCE_S

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode: wire.py is not in a package


@dataclass
class Engine:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def rss(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def stop(self) -> int:
        """A clean stop; the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def kv_engine() -> Path:
    return built("kv_engine") / "bin" / "kv_engine"


@pytest.fixture
def start_engine(kv_engine: Path, tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """start_engine("--flag", ..., users={...}) starts one engine; all are gone after the test.

    `open_files` is its limit of open files.
    """
    started: list[Engine] = []

    def start(
        *flags: str,
        users: dict[str, Any] | None = None,
        kind: str = "ephemeral",
        open_files: int | None = None,
    ) -> Engine:
        number = len(started)
        port_file = tmp_path / f"port-{number}"
        log = tmp_path / f"engine-{number}.log"
        limit = [] if open_files is None else ["prlimit", f"--nofile={open_files}:{open_files}"]
        command = [
            *limit, str(kv_engine), "--port-file", str(port_file), "--bucket-type", kind, *flags,
        ]  # fmt: skip
        defaults = {
            "--port": "0", "--data-dir": str(tmp_path / "data"), "--quota-mb": "512",
            "--vbuckets": "64",
        }  # fmt: skip
        for flag, value in defaults.items():
            command += [] if flag in flags else [flag, value]
        if users is not None:
            file = tmp_path / "users.json"
            file.write_text(json.dumps(users))
            file.chmod(0o600)
            command += ["--users", str(file)]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=out)
        deadline = time.monotonic() + PATIENCE_S
        while not port_file.exists():
            assert process.poll() is None, f"exit {process.returncode}: {log.read_text()}"
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        engine = Engine(process, int(port_file.read_text()), log)
        started.append(engine)
        return engine

    yield start
    for engine in started:
        if engine.process.poll() is None:
            engine.process.kill()
            engine.process.wait()


@pytest.fixture
def engine(start_engine: Callable[..., Engine]) -> Engine:
    """An ephemeral bucket without users."""
    return start_engine()
